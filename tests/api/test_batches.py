"""The batches of a source, as a program gets them."""

from itertools import islice

from calve.api.source import _batches, _end
from calve.sources.source import Waiting


class Shelf:
    """A source whose rows turn up between two questions."""

    def __init__(self, *answers):
        self.answers = list(answers)
        self.naps = 0

    def latest(self, after):
        return self.answers.pop(0)

    def nap(self, seconds):
        self.naps += 1

    def batches(self, available_now=False):
        return _batches(
            self.latest, lambda after, to: (after["n"], to["n"]), {"n": 0}, available_now, self.nap
        )


def to(n, rows, **keys):
    return Waiting({"n": n}, rows, **keys)


def test_a_bounded_source_ends():
    shelf = Shelf(to(2, 2, more=True), to(4, 2, ended=True))
    assert list(shelf.batches()) == [(0, 2), (2, 4)]
    assert shelf.naps == 0


def test_an_endless_source_is_waited_for():
    shelf = Shelf(to(2, 2), to(2, 0), to(5, 3))
    assert list(islice(shelf.batches(), 2)) == [(0, 2), (2, 5)]
    assert shelf.naps == 1


def test_what_is_available_now_ends_when_nothing_waits():
    shelf = Shelf(to(2, 2), to(2, 0))
    assert list(shelf.batches(available_now=True)) == [(0, 2)]
    assert shelf.naps == 0


def test_a_position_moves_also_where_no_row_comes_with_it():
    shelf = Shelf(to(3, 0, more=True), to(4, 1, ended=True))
    assert list(shelf.batches()) == [(3, 4)]


def test_all_that_is_there_may_be_several_batches():
    shelf = Shelf(to(2, 2, more=True), to(4, 2, more=True), to(5, 1))
    assert _end(lambda after, limits: shelf.latest(after), {"n": 0}) == {"n": 5}
