from calve.sink.writer import _tasks

MIB = 2**20


def test_few_rows_are_written_by_one_task():
    assert _tasks(50_000, 0, 128 * MIB, False, 8) == 1


def test_all_cores_write_where_there_are_no_partitions():
    assert _tasks(60_000, 6 * MIB, 128 * MIB, False, 2) == 2
    assert _tasks(1_600_000, 1300 * MIB, 4096 * MIB, False, 2) == 2


def test_a_task_writes_about_one_file_of_a_large_batch():
    assert _tasks(100_000_000, 10_000 * MIB, 128 * MIB, False, 2) == 79


def test_as_few_tasks_as_possible_write_to_many_partitions():
    assert _tasks(400_000, 4000 * MIB, 128 * MIB, True, 8) == 1
    assert _tasks(1_000_000, 4000 * MIB, 128 * MIB, True, 8) == 2
    assert _tasks(10_000_000, 4000 * MIB, 128 * MIB, True, 2) == 2
