"""Schemas: DDL, Spark's JSON, differences."""

from __future__ import annotations

import json
import random
import string
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calve.schema import (
    Array,
    Column,
    Decimal,
    Map,
    Primitive,
    Schema,
    SchemaError,
    Struct,
    differences,
    from_spark_json,
    parse,
    unsupported,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INT, STRING = Primitive("int"), Primitive("string")

PLAIN = ["boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "date"]
PLAIN += ["timestamp", "timestamp_ntz", "variant", "void", "interval", "interval day to second", "time(3)"]
PLAIN += ["varchar(10)", "char(3)"]

names = st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
decimals = st.integers(1, 38).flatmap(lambda p: st.builds(Decimal, st.just(p), st.integers(0, p)))
leaves = st.sampled_from(PLAIN).map(Primitive) | decimals
comments = st.none() | st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


def columns(types: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Column, ...]]:
    one = st.builds(Column, names, types, st.booleans(), comments)
    return st.lists(one, min_size=1, max_size=4, unique_by=lambda column: column.name.lower()).map(tuple)


types = st.recursive(
    leaves,
    lambda inner: st.builds(Array, inner) | st.builds(Map, inner, inner) | columns(inner).map(Struct),
    max_leaves=8,
)
schemas = columns(types).map(Schema)


def test_names_types_nullability_and_comments_are_read() -> None:
    schema = parse(
        "id BIGINT NOT NULL COMMENT 'the key', `two words` array<struct<a: int, b string>>, m map<string,dec>"
    )
    assert schema.names == ("id", "two words", "m")
    assert schema.columns[0] == Column("id", Primitive("bigint"), nullable=False, comment="the key")
    assert schema.columns[1].type == Array(Struct((Column("a", INT), Column("b", STRING))))
    assert schema.columns[2].type == Map(STRING, Decimal(10, 0))


@pytest.mark.parametrize(
    ("synonym", "name"),
    [
        ("BYTE", "tinyint"),
        ("Short", "smallint"),
        ("INTEGER", "int"),
        ("long", "bigint"),
        ("real", "float"),
        ("timestamp_ltz", "timestamp"),
        ("timestamp without time zone", "timestamp_ntz"),
        ("character(4)", "char(4)"),
        ("time", "time(6)"),
        ("interval year to month", "interval year to month"),
    ],
)
def test_a_synonym_is_the_type_it_stands_for(synonym: str, name: str) -> None:
    assert parse(f"a {synonym}").columns[0].type == Primitive(name)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id BIGINT, name BIGNT", "at character 17 ('BIGNT'): unknown type; did you mean BIGINT?"),
        ("a TEXT", "at character 3 ('TEXT'): unknown type; did you mean STRING?"),
        ("a qqqqqq", "at character 3 ('qqqqqq'): unknown type"),
        ("a geometry(4326)", "at character 3 ('geometry'): Spark cannot write it to Iceberg"),
        ("", "at character 1 (the end): expected the name of a column"),
        ("a", "at character 2 (the end): expected a type"),
        ("a int b int", "at character 7 ('b'): expected a comma, NOT NULL or COMMENT"),
        ("a: int", "at character 2 (':'): a colon stands only inside STRUCT<…>; write the name and the type"),
        ("a int NULL", "('NULL'): a column is nullable unless NOT NULL says otherwise; leave it out"),
        ("a string collate UNICODE", "('collate'): Iceberg has no collations; leave it out"),
        ("a int, A string", "at character 8 ('A'): there is a column of this name already"),
        ("a struct<b:int, B:int>", "at character 17 ('B'): there is a column of this name already"),
        ("a decimal(39)", "('decimal'): the precision 39 is above 38"),
        ("a decimal(5,7)", "('decimal'): the scale 7 is above the precision 5"),
        ("a decimal(5,2,1)", "('decimal'): expected a precision and a scale at the most"),
        ("a decimal(x)", "('x'): expected a whole number"),
        ("a varchar", "('varchar'): expected one length, such as VARCHAR(10)"),
        ("a time(9)", "('time'): expected one precision from 0 to 6"),
        ("a int(3)", "at character 6 ('('): INT has no length"),
        ("a interval month to year", "('interval'): there is no interval MONTH TO YEAR"),
        ("a array", "(the end): expected '<': ARRAY needs its parts"),
        ("a array<int", "(the end): expected '>' at the end of ARRAY"),
        ("a map<int>", "('>'): expected a comma and the type of the values"),
        ("a int comment 5", "('5'): expected the text of the comment in quotes"),
        ("a int comment 'x", "at character 15 ('''): the quote is not closed"),
        ("a int /* x", "at character 7 ('/*'): the comment is not closed"),
        ("a int; b int", "at character 6 (';'): unexpected character"),
        ("größe int", "at character 1 ('größe'): a name with such letters must be in backticks, `größe`"),
        ("1L int", "at character 1 ('1L'): expected the name of a column"),
        ("a " + "array<" * 70 + "int" + ">" * 70, "types are nested deeper than 64"),
    ],
)
def test_a_schema_that_cannot_be_read_is_refused_with_place_and_reason(text: str, message: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse(text)
    assert str(caught.value).startswith("Cannot read the schema at character ")
    assert message in str(caught.value)


@settings(max_examples=40)
@given(schemas)
def test_ddl_reads_back_as_the_same_schema(schema: Schema) -> None:
    assert parse(schema.ddl()) == schema


@settings(max_examples=40)
@given(schemas)
def test_json_reads_back_as_the_same_schema(schema: Schema) -> None:
    assert from_spark_json(json.loads(json.dumps(schema.to_spark_json()))) == schema


def test_json_tells_of_elements_and_values_that_are_not_null() -> None:
    schema = Schema((Column("a", Array(INT, False)), Column("m", Map(STRING, INT, False))))
    assert from_spark_json(schema.to_spark_json()) == schema


def test_json_of_a_type_that_spark_made_itself_is_refused() -> None:
    field = {"name": "a", "type": {"type": "udt"}, "nullable": True, "metadata": {}}
    with pytest.raises(SchemaError, match="unknown type 'udt'"):
        from_spark_json({"type": "struct", "fields": [field]})


@settings(max_examples=40)
@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parse(text)
    except SchemaError:
        return


def test_a_column_is_found_by_name_and_through_structs() -> None:
    schema = parse("a struct<b: struct<c: int>>, x struct<z: int>, `x.y` int")
    assert schema.column("a.b.c") == Column("c", INT)
    assert schema.column("x.y") == Column("x.y", INT)
    assert schema.column("a.c") is None
    assert schema.column("A") is None


@settings(max_examples=40)
@given(schemas)
def test_a_schema_does_not_differ_from_itself(schema: Schema) -> None:
    assert differences(schema, schema) == []


@pytest.mark.parametrize(
    ("declared", "existing", "lines"),
    [
        ("a tinyint, b smallint, c varchar(3), d char(2)", "a int, b int, c string, d string", []),
        ("a int", "a int, b string", []),
        ("b int, a int", "a int, b int", []),
        ("a int", "b int", ["column 'a' is INT in the declaration and missing in the table"]),
        ("a int", "a bigint", ["column 'a' is INT in the declaration and BIGINT in the table"]),
        ("a int not null", "a int", ["column 'a' is NOT NULL in the declaration and nullable in the table"]),
        ("a int", "a int not null", ["column 'a' is nullable in the declaration and NOT NULL in the table"]),
        (
            "a int",
            "a int, b int not null",
            ["column 'b' is missing in the declaration and INT NOT NULL in the table"],
        ),
        (
            "a array<struct<b: int, c: string>>",
            "a array<struct<b: bigint>>",
            [
                "column 'a.element.b' is INT in the declaration and BIGINT in the table",
                "column 'a.element.c' is STRING in the declaration and missing in the table",
            ],
        ),
        (
            "m map<string, decimal(5,2)>",
            "m map<int, decimal(5,3)>",
            [
                "column 'm.key' is STRING in the declaration and INT in the table",
                "column 'm.value' is DECIMAL(5,2) in the declaration and DECIMAL(5,3) in the table",
            ],
        ),
    ],
)
def test_differences_show_both_sides(declared: str, existing: str, lines: list[str]) -> None:
    assert differences(parse(declared), parse(existing)) == lines


def test_elements_that_may_not_be_null_in_the_table_are_a_difference() -> None:
    existing = Schema((Column("a", Array(INT, element_nullable=False)),))
    assert differences(parse("a array<int>"), existing) == [
        "column 'a.element' is nullable in the declaration and NOT NULL in the table"
    ]


def test_types_that_iceberg_cannot_hold_are_named_with_the_reason() -> None:
    text = "a interval, b array<interval day>, c void, d time(3), e struct<>, f decimal(0,0), g variant"
    assert unsupported(parse(f"{text}, h map<int, int>")) == [
        "column 'a' is INTERVAL: Iceberg has no intervals",
        "column 'b.element' is INTERVAL DAY: Iceberg has no intervals",
        "column 'c' is VOID: a column of nulls only cannot be stored",
        "column 'd' is TIME(3): Spark cannot write it to Iceberg",
        "column 'e' is STRUCT<>: a struct without columns cannot be stored",
        "column 'f' is DECIMAL(0,0): the precision must be at least 1",
        "column 'g' is VARIANT: Iceberg holds it from format_version 3 on",
    ]


def test_format_version_3_holds_variants() -> None:
    assert unsupported(parse("a variant"), format_version=3) == []


def test_a_column_without_a_name_cannot_be_held() -> None:
    assert unsupported(parse("`` int")) == ["column '' is INT: a column needs a name"]


class Writer:
    """Writes random schemas the way people do: any case, any synonym, any space, odd names."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def text(self) -> str:
        return self.columns(depth=3, in_struct=False)

    def columns(self, depth: int, in_struct: bool) -> str:
        count = self.random.randint(1, 5 if depth == 3 else 3)
        used: dict[str, str] = {}
        while len(used) < count:
            name = self.name()
            used.setdefault(name.strip("`").replace("``", "`").lower(), name)
        return self.join(",", [self.column(name, depth, in_struct) for name in used.values()])

    def column(self, name: str, depth: int, in_struct: bool) -> str:
        colon = self.random.choice([":", ": ", " : ", " "]) if in_struct else " "
        text = f"{name}{colon}{self.type(depth)}"
        if self.random.random() < 0.3:
            text += self.gap() + self.cased("not") + self.gap() + self.cased("null")
        return text + (
            f"{self.gap()}{self.cased('comment')} {self.comment()}" if self.random.random() < 0.3 else ""
        )

    def type(self, depth: int) -> str:
        kind = self.random.choice(["array", "map", "struct", *["plain"] * 4]) if depth else "plain"
        if kind == "plain":
            return self.cased(self.plain())
        parts = {
            "array": lambda: self.type(depth - 1),
            "map": lambda: self.join(",", [self.type(depth - 1), self.type(depth - 1)]),
            "struct": lambda: self.columns(depth - 1, in_struct=True) if self.random.random() < 0.9 else "",
        }
        return f"{self.cased(kind)}{self.space()}<{self.space()}{parts[kind]()}{self.space()}>"

    def plain(self) -> str:
        precision = self.random.randint(1, 38)
        scaled = f"({precision},{self.space()}{self.random.randint(0, precision)})"
        decimal = self.random.choice(["decimal", "dec", "numeric"])
        synonyms = [
            "byte",
            "short",
            "integer",
            "long",
            "real",
            "timestamp_ltz",
            "timestamp without time zone",
        ]
        sizes = [
            decimal,
            f"{decimal}({precision})",
            f"{decimal}{scaled}",
            "character(9)",
            "time",
            "interval hour",
        ]
        return self.random.choice([*PLAIN, *synonyms, *sizes, "interval year to month"])

    def name(self) -> str:
        letters = string.ascii_letters + string.digits + "_"
        plain = self.random.choice(string.ascii_letters + "_") + "".join(self.random.choices(letters, k=4))
        word = self.random.choice(
            ["select", "date", "timestamp", "order", "comment", "not", "null", "map", "x", "1a"]
        )
        odd = "".join(self.random.choices("ab \t.,:<>()-`'\"\\/*éß漢🧊\n", k=self.random.randint(1, 6)))
        return self.random.choice([plain, plain, word, f"`{odd.replace('`', '``')}`"])

    def comment(self) -> str:
        pieces = [
            "a",
            "b",
            " ",
            "\\'",
            "''",
            "\\n",
            "\\t",
            "\\\\",
            "\\u00e9",
            "\\101",
            "\\%",
            "\\_",
            "\\q",
            "漢",
            '"',
            ",",
        ]
        body = "".join(self.random.choices(pieces, k=self.random.randint(0, 6)))
        double = body.replace('"', '""').replace("''", "'")
        return self.random.choice([f"'{body}'", f'"{double}"', "r'raw\\n'", f"'{body}' 'more'"])

    def join(self, separator: str, parts: list[str]) -> str:
        return f"{self.space()}{separator}{self.space()}".join(parts)

    def space(self) -> str:
        return self.random.choice(["", "", "", " ", "  ", "\n", "\t", " /* , */ ", "-- note\n"])

    def gap(self) -> str:
        return self.random.choice([" ", "  ", "\n", "\u00a0", " /* x */ "])

    def cased(self, text: str) -> str:
        return self.random.choice([text, text.upper(), text.title()])

    def damaged(self) -> str:
        text = self.text()
        at = self.random.randrange(len(text))
        piece = self.random.choice(
            [",", ":", "<", ">", "(", ")", " ", "'", "`", "not", "5", "null", " int ", ".", "-", ""]
        )
        return text[:at] + piece + text[at + self.random.randint(0, 3) :]


def ours(text: str) -> Any:
    try:
        return parse(text).to_spark_json()
    except SchemaError as error:
        return None if "already" not in str(error) else "twice"


def theirs(struct_type: Any, text: str) -> Any:
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        return json.loads(struct_type.fromDDL(text).json())
    except (Py4JJavaError, PySparkException):
        return None


@pytest.fixture(scope="module")
def struct_type(spark: SparkSession) -> Any:
    assert spark._jvm is not None
    return spark._jvm.org.apache.spark.sql.types.StructType


@pytest.mark.spark
def test_spark_reads_the_same_of_1000_schemas(struct_type: Any) -> None:
    for seed in range(1000):
        text = Writer(seed).text()
        schema = parse(text)
        assert schema.to_spark_json() == theirs(struct_type, text), (seed, text)
        assert schema.to_spark_json() == theirs(struct_type, schema.ddl()), (seed, schema.ddl())


@pytest.mark.spark
def test_spark_refuses_the_same_of_1000_damaged_schemas(struct_type: Any) -> None:
    refused = 0
    for seed in range(1000):
        text = Writer(seed).damaged()
        mine = ours(text)
        if mine != "twice":
            assert mine == theirs(struct_type, text), (seed, text)
            refused += mine is None
    assert refused > 500
