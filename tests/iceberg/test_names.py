"""Names that columns had before, by their numbers."""

import json

from calve.iceberg.names import exchanged, with_earlier_names
from calve.schema import parse


def schema(*fields: tuple[int, str, object]) -> str:
    return json.dumps({"type": "struct", "fields": [_field(*one) for one in fields]})


def _field(number: int, name: str, kind: object) -> dict[str, object]:
    return {"id": number, "name": name, "required": False, "type": kind}


def struct(*fields: tuple[int, str, object]) -> object:
    return json.loads(schema(*fields))


def test_a_column_has_the_names_of_its_number_the_newest_first():
    old = schema((1, "a", "int"), (2, "b", "int"))
    newer = schema((1, "c", "int"), (2, "b", "int"))
    now = schema((1, "d", "int"), (2, "b", "int"), (3, "a", "int"))
    found = with_earlier_names(parse("d INT, b INT, a INT"), now, [old, newer])
    assert [(one.name, one.aliases) for one in found.columns] == [("d", ("c", "a")), ("b", ()), ("a", ())]


def test_names_inside_of_others_count_too():
    def nested(name: str) -> str:
        inside = struct((5, name, "int"))
        value = struct((10, name, "int"))
        return schema(
            (1, "s", inside),
            (2, "l", {"type": "list", "element-id": 6, "element": struct((7, name, "int"))}),
            (3, "m", {"type": "map", "key-id": 8, "key": "string", "value-id": 9, "value": value}),
        )  # fmt: skip

    ddl = "s STRUCT<y: INT>, l ARRAY<STRUCT<y: INT>>, m MAP<STRING, STRUCT<y: INT>>"
    found = with_earlier_names(parse(ddl), nested("y"), [nested("x")])
    assert found == parse(ddl)
    inside, elements, values = (one.type for one in found.columns)
    for kind in (inside, elements.element, values.value):
        assert [one.aliases for one in kind.columns] == [("x",)]


def test_a_name_that_stands_for_another_column_is_told():
    before = schema((1, "a", "int"), (2, "b", struct((3, "x", "int"))))
    assert exchanged(before, schema((1, "a", "long"), (4, "c", "int"))) == []
    assert exchanged(before, schema((1, "b", "int"), (2, "a", "int"))) == ["b", "a"]
    assert exchanged(before, schema((1, "a", "int"), (2, "b", struct((4, "x", "int"))))) == ["b.x"]
