"""Kinds of cells: what a column means, how text files write it, and its typed values.

A kind is a few cells, each a pair of the text in a file and the value that its author means; None
is a missing value. `KINDS` must get the same decision by every route, or a declared refusal.
`CONTRADICTIONS` are files whose cells contradict what was learnt in training.
"""

from __future__ import annotations

import datetime
import unicodedata
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

SAME, EITHER, REFUSED, SKIPPED = "same", "either", "refused", "skipped"
FILES = ("csv", "semicolon", "comma", "tab", "gz", "utf16", "xlsx", "parquet", "text parquet",
         "few", "few, comma", "parts")  # fmt: skip
COLUMN_OF = {"input": "k", "sensitive": "s", "client": "site", "id": "id", "label": "y"}
Cells = Sequence[tuple[str, Any]]


@dataclass(frozen=True)
class Kind:
    """A column as its author means it.

    Attributes
    ----------
    cells
        Text and value of the cells; each is in as many rows as any other.
    once
        Further cells, in two rows each.
    comma
        The texts of `cells` and `once`, or of `new`, in a file with decimal commas; the same if
        left out.
    dtype, arrow
        The type of the values in pandas and in Parquet; inferred if left out.
    excel
        The same for values in a workbook, if Excel has no such type.
    role
        The column that these cells are in, see `COLUMN_OF`.
    options
        How the table is loaded for training.
    expect
        What a route may do if not SAME: EITHER decide alike or refuse, be REFUSED, or be SKIPPED,
        as the format cannot hold the cells. Keys, by precedence: ``"trained>route"``, a route,
        ``"typed>text"`` (trained on typed values, which show no notation, and decided on text),
        ``"across"`` (the same, or the reverse).
    dialect
        How files of rows to decide on differ, see `writers.Dialect`.
    new
        Cells of the rows to decide on, in the place of `cells`.
    """

    name: str
    cells: Cells
    once: Cells = ()
    comma: Sequence[str] | None = None
    dtype: Any = None
    arrow: Any = None
    excel: Sequence[Any] | None = None
    role: str = "input"
    options: Mapping[str, Any] = field(default_factory=dict)
    method: str = "newton"
    expect: Mapping[str, str] = field(default_factory=dict)
    dialect: Mapping[str, Any] = field(default_factory=dict)
    new: Cells | None = None
    trained: tuple[str, ...] = ("csv", "parquet")

    def __str__(self) -> str:
        return self.name

    @property
    def column(self) -> str:
        return COLUMN_OF[self.role]

    @property
    def all_cells(self) -> list[tuple[str, Any]]:
        return [*self.cells, *self.once]

    def expected(self, trained: str, route: str) -> str:
        """Return what the route may do with a run that was trained on this format."""
        for key in (f"{trained}>{route}", route):
            if key in self.expect:
                return self.expect[key]
        if "comma" in route:  # training showed decimal points, or nothing
            return REFUSED
        if is_typed(trained) and not is_typed(route) and "typed>text" in self.expect:
            return self.expect["typed>text"]
        across = is_typed(trained) != is_typed(route) and route not in ("onnx", "run")
        return self.expect.get("across", SAME) if across else SAME


def is_typed(route: str) -> bool:
    """Whether a route has typed values, no texts."""
    return route in ("parquet", "xlsx", "python")


def pairs(*texts: str, of: Any = str) -> list[tuple[str, Any]]:
    """Return cells whose value follows from the text."""
    return [(text, of(text)) for text in texts]


def commas(cells: Cells) -> list[str]:
    """Return the texts with decimal commas."""
    return [text.replace(".", ",") for text, _ in cells]


def swapped(cells: Cells) -> list[str]:
    """Return the texts with decimal commas, and points for thousands."""
    return [text.translate(str.maketrans(",.", ".,")) for text, _ in cells]


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


INTEGERS = pairs("3", "7", "12", "25", "40", "58", of=int)
FLOATS = pairs("0.5", "1.25", "-2.75", "3.1", "10.875", of=float)
COLOURS = pairs("red", "green", "blue", "grey")
CODES = {"options": {"categorical": "k"}}
BLANK = {"typed>text": EITHER}  # text may be refused if no text was trained on
LOOSE = {"across": EITHER}  # a reader need not know this notation, but may not misread it
DATES = ("2021-01-31", "2022-05-17", "2023-12-01", "2024-02-29", "2024-08-12")
LARGE = ("1234567890123456", "1234567890123457", "9007199254740993", "4000123412341234")
LONGEST = ("1234567890123456789", "1234567890123456788", "9223372036854775807",
           "4000123412341234001")  # fmt: skip


def dated(form: str) -> list[tuple[str, Any]]:
    return [(f"{day(text):{form}}", day(text)) for text in DATES]


def both_if(condition: bool) -> tuple[str, ...]:
    """Return the formats to train on: text only, if typed values are those of another kind."""
    return ("csv", "parquet") if condition else ("csv",)


def plain_numbers() -> list[Kind]:
    exponents = pairs("1e-7", "2.5E-7", "3e-07", "4.25e-6", "0.5e-6", of=float)
    digits = pairs("0.12345678901234567", "0.30000000000000004", "1.7976931348623157",
                   "2.2250738585072014", "0.1", of=float)  # fmt: skip
    large = pairs("1.5e+10", "2E+11", "3.25e11", "4.0e10", of=float)
    marked = [("1,037", 1037), ("2,450", 2450), ("12,800", 12800), ("7,001", 7001)]
    mixed = [("950", 950), ("1,037", 1037), ("12,450", 12450), ("1,234,567", 1234567), ("8", 8)]
    cents = [("1,037.25", 1037.25), ("950.50", 950.5), ("12,450.75", 12450.75), ("8.00", 8.0)]
    plain = [
        Kind("integers", INTEGERS),
        Kind("integers, typed as floats", INTEGERS, dtype="float64"),
        Kind("negative integers", pairs("-3", "-1", "0", "2", "5", of=int)),
        Kind("floats", FLOATS, comma=commas(FLOATS)),
        Kind("floats with trailing zeros", [("1.0", 1), ("2.00", 2), ("3.50", 3.5), ("10.0", 10)],
             comma=["1,0", "2,00", "3,50", "10,0"]),
        Kind("whole floats, typed as integers", [("1.0", 1), ("2.0", 2), ("3.0", 3), ("9.0", 9)],
             comma=["1,0", "2,0", "3,0", "9,0"]),
        Kind("17 significant digits", digits, comma=commas(digits)),
        Kind("exponents", exponents, comma=commas(exponents)),
        Kind("exponents with plus", large, comma=commas(large)),
        Kind("exponents of a whole number, all", pairs("1E5", "2E3", "3E4", "4E4", of=float),
             expect=LOOSE),
        Kind("huge and tiny numbers", pairs("1e300", "-1e300", "1e-300", "0", "1", of=float)),
        Kind("points without a digit beside", [(".5", 0.5), ("5.", 5.0), ("-.25", -0.25)],
             comma=[",5", "5,", "-,25"], expect={"comma": EITHER, "few, comma": EITHER}),
        Kind("plus signs", [("+5", 5), ("-3", -3), ("+12", 12), ("0", 0)]),
        Kind("plus signs, floats", [("+0.5", 0.5), ("-3.5", -3.5), ("+12.25", 12.25)],
             comma=["+0,5", "-3,5", "+12,25"]),
        Kind("minus zero", [("-0.0", -0.0), ("0.0", 0.0), ("0.5", 0.5), ("-1.5", -1.5)],
             comma=["-0,0", "0,0", "0,5", "-1,5"]),
        Kind("blanks around integers", [(" 5 ", 5), ("  7", 7), ("9  ", 9), ("11", 11)]),
        Kind("blanks around floats", [(" 0.5 ", 0.5), (" 7.25", 7.25), ("9.5 ", 9.5)],
             comma=[" 0,5 ", " 7,25", "9,5 "]),
        Kind("no-break blanks around", [("\xa05", 5), ("7\xa0", 7), ("9", 9)], expect=LOOSE),
        Kind("thousands", marked, comma=swapped(marked), expect=BLANK),
        Kind("thousands among small numbers", mixed, comma=swapped(mixed), expect=BLANK),
        Kind("thousands with decimals", cents, comma=swapped(cents), expect=BLANK),
        Kind("negative thousands", [("-1,037", -1037), ("2,450", 2450), ("-12,800", -12800)],
             comma=["-1.037", "2.450", "-12.800"], expect=BLANK),
        Kind("thousands with missing values", [*mixed, ("", None)], comma=[*swapped(mixed), ""],
             expect=BLANK),
        Kind("codes for missing values", [("3", 3), ("7", 7), ("99999", 99999), ("-1", -1)]),
        Kind("infinities", [("1.5", 1.5), ("inf", np.inf), ("-inf", -np.inf), ("2.5", 2.5)],
             comma=["1,5", "inf", "-inf", "2,5"], excel=[1.5, "inf", "-inf", 2.5]),
        Kind("one word among numbers", INTEGERS, once=[("unknown", None)], expect=BLANK),
        Kind("one word among floats", FLOATS, once=[("unknown", None)],
             comma=[*commas(FLOATS), "unknown"], expect=BLANK),
        Kind("one dash among numbers", INTEGERS, once=[("-", None)], expect=BLANK),
        Kind("one word among thousands", mixed, once=[("n/k", None)],
             comma=[*swapped(mixed), "n/k"], expect=BLANK),
        Kind("years", pairs("1999", "2005", "2014", "2024", of=int)),
        Kind("0 and 1", pairs("0", "1", of=int)),
        Kind("0 and 1, with missing values", [("0", 0), ("1", 1), ("", None)]),
    ]  # fmt: skip
    other = []
    for name, blank in (("blank", " "), ("thin blank", "\u202f"), ("no-break blank", "\xa0")):
        spaced = [("1 234.5", 1234.5), ("950.25", 950.25), ("12 450.75", 12450.75)]
        spaced = [(text.replace(" ", blank), value) for text, value in spaced]
        other.append(Kind(f"thousands marked by a {name}", spaced, comma=commas(spaced),
                          expect=LOOSE | {"comma": EITHER, "few, comma": EITHER}))  # fmt: skip
    swiss = [("1'234.5", 1234.5), ("950.25", 950.25), ("12'450.75", 12450.75)]
    percent = [("12 %", 12.0), ("12.5%", 12.5), ("7%", 7.0), ("100 %", 100.0)]
    money = [("$1,200", 1200.0), ("$950", 950.0), ("$2,500.50", 2500.5), ("$10", 10.0)]
    euros = [("€ 5", 5.0), ("€ 7", 7.0), ("€ 12", 12.0)]
    return [
        *plain, *other,
        Kind("thousands marked by an apostrophe", swiss, expect=LOOSE),
        Kind("percent, typed as text", pairs("12 %", "12.5%", "7%", "100 %")),
        Kind("percent, typed as numbers", percent, expect=LOOSE),
        Kind("dollars, typed as text", pairs("$1,200", "$950", "$2,500.50", "$10")),
        Kind("dollars, typed as numbers", money, expect=LOOSE),
        Kind("euros, typed as text", pairs("€ 5", "€ 7", "12 €")),
        Kind("euros, typed as numbers", euros, expect=LOOSE),
        Kind("hexadecimal", pairs("0x1A", "0x2B", "0x10")),
        Kind("versions", pairs("1.2.3", "1.10.0", "2.0.1")),
        Kind("bands", pairs("0-9", "10-19", "20-29", ">30")),
    ]  # fmt: skip


def typed_numbers() -> list[Kind]:
    gaps = [*INTEGERS, ("", None)]
    cents = [("0.10", 0.1), ("12.50", 12.5), ("7.05", 7.05)]
    decimals = [(text, Decimal(text)) for text, _ in cents]
    large = [(text, int(text)) for text in LARGE]
    longest = [(text, int(text)) for text in LONGEST]
    as_text = [*LONGEST, None]
    return [
        Kind("integers with nulls", gaps),
        Kind("integers with nulls, Int64", gaps, dtype="Int64"),
        Kind("floats with nulls, Float64", [*FLOATS, ("", None)], dtype="Float64",
             comma=[*commas(FLOATS), ""]),
        Kind("int8", INTEGERS, dtype="int8", arrow=pa.int8()),
        Kind("uint64 beyond int64", [("18446744073709551615", 2**64 - 1), ("5", 5), ("0", 0)],
             dtype="uint64", arrow=pa.uint64(), excel=["18446744073709551615", 5, 0]),
        Kind("float32", cents, dtype="float32", arrow=pa.float32(),
             comma=["0,10", "12,50", "7,05"]),
        Kind("float32 as categories", cents, dtype="float32", arrow=pa.float32(),
             comma=["0,10", "12,50", "7,05"], **CODES),
        Kind("decimal128", decimals, dtype=object, arrow=pa.decimal128(9, 2),
             comma=["0,10", "12,50", "7,05"]),
        Kind("decimal128 as categories", decimals, dtype=object, arrow=pa.decimal128(9, 2),
             comma=["0,10", "12,50", "7,05"], **CODES),
        Kind("dictionary of integers", INTEGERS, dtype="category"),
        Kind("16 digits as numbers", large),
        Kind("19 digits as numbers", longest, excel=LONGEST),
        Kind("19 digits with nulls as numbers, Int64", [*longest, ("", None)], dtype="Int64",
             excel=as_text),
        Kind("16 digits as categories", large, expect={"xlsx": SKIPPED}, **CODES),
        Kind("16 digits as categories, with nulls", [*large, ("", None)], dtype="Int64",
             expect={"xlsx": SKIPPED}, **CODES),
        Kind("16 digits as categories, typed as text", [*pairs(*LARGE), ("", None)], **CODES),
        Kind("19 digits as categories", longest, excel=LONGEST, **CODES),
        Kind("19 digits as categories, with nulls", [*longest, ("", None)], dtype="Int64",
             excel=as_text, **CODES),
        Kind("19 digits as categories, typed as text", [*pairs(*LONGEST), ("", None)], **CODES),
    ]  # fmt: skip


def missing_words() -> list[Kind]:
    """Words for a missing value that pandas knows, among numbers and among words; then others."""
    known = ("", "NA", " NA", "N/A", "null", "NULL", "None", "nan", "NaN", "?", "#N/A", "n/a",
             "<NA>", "  ")  # fmt: skip
    other = ("-", "missing", ".", "na", "unknown", "--")
    found = []
    for word in (*known, *other):
        expect = {} if word in known else LOOSE
        more = {"expect": expect, "trained": both_if(word in ("", "NA", "-", "unknown"))}
        found.append(Kind(f"'{word}' among integers", [*INTEGERS, (word, None)], **more))
        if word in known:
            found.append(Kind(f"'{word}' among words", [*COLOURS, (word, None)], **more))
    for word in other:  # it may be a category
        found.append(Kind(f"'{word}' as a word", [*COLOURS, (word, word)]))
    several = [("", None), ("NA", None), ("nan", None), ("?", None), (" ", None)]
    return [
        *found,
        Kind("mixed missing words among floats", [*FLOATS, *several],
             comma=[*commas(FLOATS), *(text for text, _ in several)]),
        Kind("mixed missing words among words", [*COLOURS, *several]),
        # Words that a text file cannot tell from a missing value are missing in every format.
        Kind("the word None", [*COLOURS, ("None", "None")]),
        Kind("the word NA", [*COLOURS, ("NA", "NA")]),
        Kind("the word null", [*COLOURS, ("null", "null")]),
        Kind("the word nan", [*COLOURS, ("nan", "nan")]),
        Kind("empty text and missing values", [*COLOURS, ("", ""), ("", None)]),
        Kind("NaN among objects", [*COLOURS, ("", float("nan"))], dtype=object),
        Kind("all missing", [("", None)]),
        Kind("all missing, typed as text", [("", None)], dtype="str", arrow=pa.string()),
        Kind("all missing, kept", [("", None)], options={"keep": "k"}),
        Kind("constant number", [("3", 3)]),
        Kind("constant word", [("red", "red")]),
    ]  # fmt: skip


def booleans() -> list[Kind]:
    found = []
    for yes, no in (("True", "False"), ("TRUE", "FALSE"), ("true", "false")):
        cells = [(yes, True), (no, False)]
        found.append(Kind(f"{yes}/{no}", cells))
        found.append(Kind(f"{yes}/{no}, with missing values", [*cells, ("", None)]))
        found.append(Kind(f"{yes}/{no}, with missing values, boolean", [*cells, ("", None)],
                          dtype="boolean"))  # fmt: skip
    for yes, no in (("yes", "no"), ("Y", "N"), ("t", "f"), ("Ja", "Nein")):
        found.append(Kind(f"{yes}/{no}, typed as text", pairs(yes, no)))
        found.append(Kind(f"{yes}/{no}, typed as booleans", [(yes, True), (no, False)],
                          expect=LOOSE))  # fmt: skip
    return [
        *found,
        Kind("yes/no with missing values", [*pairs("yes", "no"), ("", None)]),
        Kind("1/0, typed as booleans", [("1", True), ("0", False)], expect=LOOSE),
        Kind("1/0 with missing values, typed as booleans", [("1", True), ("0", False), ("", None)],
             dtype="boolean", expect=LOOSE),
        Kind("True/False, typed as text", pairs("True", "False")),
        Kind("True/False among words", pairs("True", "False", "perhaps")),
    ]  # fmt: skip


def codes() -> list[Kind]:
    digits = [("1", 1), ("2", 2), ("3", 3), ("4", 4)]
    gaps = [*digits, ("", None)]
    exponents = pairs("1E5", "2E3", "3E4", "1E50")
    zeros = [("001", 1), ("002", 2), ("010", 10), ("100", 100)]
    return [
        Kind("leading zeros, typed as text", pairs("001", "002", "010", "100")),
        Kind("leading zeros as categories, typed as text", pairs("001", "002", "010", "100"),
             **CODES),
        Kind("leading zeros as categories, typed as integers", zeros, **CODES),
        Kind("leading zeros, with missing values", [*pairs("001", "002", "010"), ("", None)]),
        Kind("leading zeros among words", pairs("001", "002", "A10")),
        Kind("leading zeros, some of eight digits", pairs("01234567", "12345678", "00000001")),
        Kind("codes 1E5 among AB1", pairs("1E5", "2E3", "AB1", "3D4")),
        Kind("codes 1E5 among AB1, as categories", pairs("1E5", "2E3", "AB1", "3D4"), **CODES),
        Kind("codes all like 1E5, typed as text", exponents),
        Kind("codes all like 1E5, as categories", exponents, **CODES),
        Kind("codes all like 1E5, as categories, missing", [*exponents, ("", None)], **CODES),
        Kind("digits as categories, typed as integers", digits, **CODES),
        Kind("digits as categories, typed as floats", digits, dtype="float64", **CODES),
        Kind("digits as categories, typed as text", pairs("1", "2", "3", "4"), **CODES),
        Kind("digits as categories, missing, typed as floats", gaps, **CODES),
        Kind("digits as categories, missing, Int64", gaps, dtype="Int64", **CODES),
        Kind("digits as categories, missing, typed as text",
             [*pairs("1", "2", "3", "4"), ("", None)], **CODES),
        Kind("1.0 as categories, typed as integers", [("1.0", 1), ("2.0", 2), ("3.0", 3)],
             comma=["1,0", "2,0", "3,0"], **CODES),
        Kind("1.0 as categories, typed as text", pairs("1.0", "2.0", "3.0"), **CODES),
        Kind("0.5 as categories", pairs("0.5", "1.5", "2.25", of=float),
             comma=["0,5", "1,5", "2,25"], **CODES),
        Kind("0.50 as categories", [("0.50", 0.5), ("1.50", 1.5), ("2.25", 2.25)],
             comma=["0,50", "1,50", "2,25"], **CODES),
        Kind("thousands as categories", [("1,037", 1037), ("2,450", 2450), ("950", 950)],
             comma=["1.037", "2.450", "950"], expect=LOOSE, **CODES),
        Kind("text of digits", pairs("1", "2", "3", "4")),
        Kind("text of digits, with missing values", [*pairs("1", "2", "3", "4"), ("", None)]),
        Kind("digits among words", pairs("1", "2", "x", "1.0")),
        Kind("integers among words, as objects", [("1", 1), ("2", 2), ("x", "x"), ("y", "y")],
             dtype=object, arrow=pa.string()),
        Kind("postal codes", pairs("01067", "10115", "80331", "99084")),
        Kind("telephone", pairs("+49 30 1234", "+49 89 5678", "+49 40 9999")),
        Kind("negative codes", [("-1", -1), ("-9", -9), ("5", 5)], **CODES),
        Kind("infinite codes as categories", [("inf", np.inf), ("1", 1.0), ("2", 2.0)],
             excel=["inf", 1, 2], **CODES),
    ]  # fmt: skip


def words() -> list[Kind]:
    umlauts = ("Köln", "Zürich", "Århus", "São Paulo")
    apart = [unicodedata.normalize("NFD", word) for word in umlauts]
    odd = {
        "upper and lower case": ("Red", "red", "RED"), "umlauts": umlauts, "umlauts, NFD": apart,
        "quotes": ('a "b"', '"c"', 'd"'), "apostrophes": ("it's", "'5", "''"),
        "commas": ("a,b", "c,d", ","), "semicolons": ("a;b", "c;d", ";"),
        "tabs": ("a\tb", "c\td", "e"), "bars": ("a|b", "c|d", "e"),
        "lines": ("two\nlines", "one line", "three\nof\nthem"),
        "formulas": ("=1+1", "+cmd", "@sum", "-1+2"), "emoji": ("🙂", "👩‍🔬", "🙃"),
        "zero-width": ("red\u200b", "red", "\u2060blue"), "right to left": ("\u202eabc", "אב", "x"),
        "very long": ("x" * 5000, "x" * 4999 + "y", "z"), "markup": ("[red]", "<b>", "&amp;"),
        "backslashes": ("\\", "a\\b", "\\n"), "inner blanks": ("a b", "a  b", "ab"),
        "hashes": ("#1", "#", "# x"), "Chinese": ("日本", "中国", "한국"),
        "letters": ("a", "b", "c"),
        "like ends of dates": ("a (year)", "b (month)", "c"),
        "like other words": ("other", "nan-1", "x"),
    }  # fmt: skip
    often = ("umlauts", "lines", "formulas", "quotes", "commas", "upper and lower case")
    plain = [Kind(f"words: {name}", pairs(*texts), trained=both_if(name in often))
             for name, texts in odd.items()]  # fmt: skip
    return [
        *plain,
        Kind("words: ends of lines of Windows", pairs("two\r\nlines", "one line", "x"),
             expect={"xlsx": SKIPPED}),
        Kind("words: umlauts, typed in NFD", list(zip(umlauts, apart, strict=True)), expect=LOOSE),
        Kind("words: blanks around, also typed", pairs(" red ", "green ", " blue")),
        Kind("words: blanks around, typed without", [(" red ", "red"), ("green ", "green"),
                                                     (" blue", "blue")]),
        Kind("words: with and without blanks", pairs("red", "red ", "green")),
        Kind("words: with missing values", [*COLOURS, ("", None)]),
        Kind("words: as objects", [*COLOURS, ("", None)], dtype=object),
        Kind("words: pandas Categorical", [*COLOURS, ("", None)], dtype="category"),
        Kind("words: ordered Categorical", pairs("low", "mid", "high"),
             dtype=pd.CategoricalDtype(["low", "mid", "high"], ordered=True)),
        Kind("words: dictionary", COLOURS, arrow=pa.dictionary(pa.int8(), pa.string())),
        Kind("words: large_string", [*COLOURS, ("", None)], arrow=pa.large_string()),
        Kind("words: binary", [(word, word.encode()) for word, _ in COLOURS], dtype=object,
             arrow=pa.binary(), excel=[word for word, _ in COLOURS], expect=LOOSE),
        Kind("words: dropped", COLOURS, options={"drop": "k"}),
        Kind("words: rare ones", COLOURS, once=pairs("mauve", "teal")),
    ]  # fmt: skip


def times() -> list[Kind]:
    iso = dated("%Y-%m-%d")
    clock = [(f"{text} {hour}:30:00", pd.Timestamp(f"{text} {hour}:30:00"))
             for text, hour in zip(DATES, ("08", "13", "23", "00", "13"), strict=True)]  # fmt: skip
    zoned = [(f"{text}+02:00", time.tz_localize("Etc/GMT-2")) for text, time in clock]
    zone = [text for text, _ in zoned]
    date = [(text, time.date()) for text, time in iso]
    ambiguous = [("01/02/2024", day("2024-02-01")), ("03/04/2023", day("2023-04-03")),
                 ("05/06/2022", day("2022-06-05"))]  # fmt: skip
    german = [text for text, _ in dated("%d.%m.%Y")]
    return [
        Kind("dates", iso),
        Kind("dates with missing values", [*iso, ("", None)]),
        Kind("dates with NA", [*iso, ("NA", None)]),
        Kind("dates and one word", iso, once=[("unknown", None)], expect=LOOSE),
        Kind("dates with slashes", dated("%Y/%m/%d")),
        Kind("dates and times", clock),
        Kind("dates and times with T", [(text.replace(" ", "T"), time) for text, time in clock]),
        Kind("dates and times without seconds", [(text[:-3], time) for text, time in clock]),
        Kind("dates and times with fractions", [(f"{text}.250", time + pd.Timedelta("250ms"))
                                                for text, time in clock]),
        Kind("midnights", [(f"{text} 00:00:00", time) for text, time in iso]),
        Kind("dates and times with a zone", zoned, excel=zone),
        Kind("dates and times with Z", [(f"{text}Z", time.tz_localize("UTC"))
                                        for text, time in clock],
             excel=[f"{text}Z" for text, _ in clock]),
        Kind("dates: date32", date, dtype=object, arrow=pa.date32()),
        Kind("dates: date64", date, dtype=object, arrow=pa.date64()),
        Kind("dates: date32 with nulls", [*date, ("", None)], dtype=object, arrow=pa.date32()),
        Kind("dates: timestamp[s]", iso, arrow=pa.timestamp("s")),
        Kind("dates: timestamp[us]", clock, arrow=pa.timestamp("us")),
        Kind("dates: timestamp[ns]", clock, arrow=pa.timestamp("ns")),
        Kind("dates, typed as text", pairs(*DATES)),
        Kind("dates, German in the file with commas", iso, comma=german,
             expect={"comma": EITHER, "few, comma": EITHER}),
        Kind("31.12.2024, typed as text", pairs(*german)),
        Kind("31.12.2024, typed as dates", dated("%d.%m.%Y"), expect=LOOSE),
        Kind("12/31/2024, typed as dates", dated("%m/%d/%Y"), expect=LOOSE),
        Kind("31/12/2024, typed as dates", dated("%d/%m/%Y"), expect=LOOSE),
        Kind("01/02/2024, typed as dates", ambiguous, expect=LOOSE),
        Kind("31 Dec 2024, typed as dates", dated("%d %b %Y"), expect=LOOSE),
        Kind("20241231, typed as integers", [(text.replace("-", ""), int(text.replace("-", "")))
                                             for text in DATES]),
        Kind("20241231, typed as dates", dated("%Y%m%d"), expect=LOOSE),
        Kind("months", pairs("2024-01", "2024-02", "2023-12")),
        Kind("dates as categories", iso[:3], **CODES, expect=LOOSE),
        Kind("times, typed as text", pairs("13:45", "08:30", "23:59")),
        Kind("times, typed as times", [(text, datetime.time.fromisoformat(text))
                                       for text in ("13:45:00", "08:30:00", "23:59:00")],
             dtype=object, arrow=pa.time64("us")),
        Kind("durations, typed as text", pairs("1:30", "12:05", "100:00")),
    ]  # fmt: skip


def sensitive() -> list[Kind]:
    role = {"role": "sensitive"}
    # The command predict gives such a row no decision, and decides on the others.
    unknown = role | {"expect": {"python": REFUSED, "python text": REFUSED}}
    ages = [("25", 25), ("38", 38), ("40", 40), ("61", 61)]
    bands = {"options": {"bands": {"s": [40]}}}
    return [
        Kind("S: words", pairs("f", "m"), **role),
        Kind("S: words with blanks", [(" f ", "f"), ("m ", "m")], **role),
        Kind("S: umlauts", pairs("männlich", "weiblich"), **role),
        Kind("S: 0/1", pairs("0", "1", of=int), **role),
        Kind("S: 0/1, typed as floats", [("0", 0.0), ("1", 1.0)], **role),
        Kind("S: 0/1, typed as text", pairs("0", "1"), **role),
        Kind("S: 0.0/1.0, typed as integers", [("0.0", 0), ("1.0", 1)],
             comma=["0,0", "1,0"], **role),
        Kind("S: 0.0/1.0, typed as text", pairs("0.0", "1.0"), **role),
        Kind("S: 0/1, typed as booleans", [("0", False), ("1", True)], expect=LOOSE, **role),
        Kind("S: 01/02", pairs("01", "02"), **role),
        Kind("S: 1/2", pairs("1", "2", of=int), **role),
        Kind("S: True/False", [("True", True), ("False", False)], **role),
        Kind("S: TRUE/FALSE", [("TRUE", True), ("FALSE", False)], **role),
        Kind("S: Categorical", pairs("f", "m"), dtype="category", **role),
        Kind("S: three groups", pairs("a", "b", "c"), **role),
        Kind("S: bands of integers", ages, **role, **bands),
        Kind("S: bands of floats", pairs("25.5", "39.99", "40.0", "61.25", of=float),
             comma=["25,5", "39,99", "40,0", "61,25"], **role, **bands),
        Kind("S: bands of integers, typed as text", [(text, text) for text, _ in ages],
             **role, **bands),
        Kind("S: bands of thousands", [("1,037", 1037), ("950", 950), ("12,450", 12450)],
             comma=["1.037", "950", "12.450"], options={"bands": {"s": [1000]}},
             expect=BLANK, **role),
        Kind("S: missing in new rows", pairs("f", "m"), new=[("f", "f"), ("m", "m"), ("", None)],
             **unknown),
        Kind("S: 0/1, missing in new rows", pairs("0", "1", of=int),
             new=[("0", 0), ("1", 1), ("", None)], **unknown),
        Kind("S: True/False, missing in new rows", [("True", True), ("False", False)],
             new=[("True", True), ("False", False), ("", None)], **unknown),
        Kind("S: bands, missing in new rows", ages, new=[*ages, ("", None)], **unknown, **bands),
        Kind("S: unknown in new rows", pairs("f", "m"), new=pairs("f", "m", "x"), **unknown),
    ]  # fmt: skip


def clients() -> list[Kind]:
    role = {"role": "client"}
    digits = pairs("1", "2", of=int)
    return [
        Kind("clients: words with blanks", [(" Oslo", "Oslo"), ("Köln ", "Köln")], **role),
        Kind("clients: integers", digits, **role),
        Kind("clients: integers, typed as floats", digits, dtype="float64", **role),
        Kind("clients: integers, typed as text", pairs("1", "2"), **role),
        Kind("clients: 1.0, typed as integers", [("1.0", 1), ("2.0", 2)],
             comma=["1,0", "2,0"], **role),
        Kind("clients: leading zeros", pairs("001", "002"), **role),
        Kind("clients: True/False", [("True", True), ("False", False)], **role),
        Kind("clients: codes 1E5", pairs("1E5", "2E5"), **role),
        Kind("clients: Categorical", pairs("a", "b"), dtype="category", **role),
        Kind("clients: 16 digits", [(text, int(text)) for text in LARGE[:2]], **role),
        Kind("clients: 19 digits", [(text, int(text)) for text in LONGEST[:2]], excel=LONGEST[:2],
             **role),
        Kind("clients: dates", dated("%Y-%m-%d")[:2], expect=LOOSE, **role),
        Kind("clients: missing in new rows", digits, new=[*digits, ("", None)], **role),
    ]  # fmt: skip


def labels() -> list[Kind]:
    role = {"role": "label"}
    return [
        Kind("labels: 0.0/1.0", [("0.0", 0.0), ("1.0", 1.0)], comma=["0,0", "1,0"], **role),
        Kind("labels: 1/2", pairs("1", "2", of=int), **role),
        Kind("labels: True/False", [("TRUE", True), ("FALSE", False)], **role),
        Kind("labels: words with blanks", [(" >50K", ">50K"), (" <=50K", "<=50K")], **role),
        Kind("labels: codes 1E5", pairs("1E5", "2E5"), **role),
        Kind("labels: three", pairs("a", "b", "c"), **role),
        Kind("labels: ordered Categorical", pairs("low", "high"), trained=("parquet",),
             dtype=pd.CategoricalDtype(["low", "high"], ordered=True), **role),
    ]  # fmt: skip


def many(write: Any, n: int = 160) -> list[tuple[str, Any]]:
    """Return as many cells as a table has rows."""
    return [write(k) for k in range(n)]


def ids() -> list[Kind]:
    """Identifiers, for a randomised rule: the same one has the same draw."""
    role = {"role": "id", "method": "draws"}
    numbered = many(lambda k: (str(k + 1), k + 1))
    long = many(lambda k: (str(1234567890123456 + k), 1234567890123456 + k))
    longest = many(lambda k: (str(1234567890123456789 + k), 1234567890123456789 + k))
    last = ("", None)
    named = many(lambda k: (str(uuid.UUID(int=k * 7919 + 5)),) * 2)
    return [
        Kind("ids: 0001", many(lambda k: (f"{k:04d}",) * 2), **role),
        Kind("ids: 1", numbered, **role),
        Kind("ids: 1, typed as floats", numbered, dtype="float64", **role),
        Kind("ids: 1, typed as text", [(text, text) for text, _ in numbered], **role),
        Kind("ids: 1, with nulls", [*numbered[:-1], last], **role),
        Kind("ids: 1, with nulls, Int64", [*numbered[:-1], last], dtype="Int64", **role),
        Kind("ids: 1.0, typed as integers", many(lambda k: (f"{k}.0", k)),
             comma=[f"{k},0" for k in range(160)], **role),
        Kind("ids: 1.0, typed as floats", many(lambda k: (f"{k}.0", float(k))), **role),
        Kind("ids: 16 digits", long, **role),
        Kind("ids: 16 digits, with nulls, Int64", [*long[:-1], last], dtype="Int64", **role),
        Kind("ids: 19 digits", longest, excel=[text for text, _ in longest], **role),
        Kind("ids: 19 digits, with nulls, Int64", [*longest[:-1], last], dtype="Int64",
             excel=[text or None for text, _ in [*longest[:-1], last]], **role),
        Kind("ids: UUIDs", named, **role),
        Kind("ids: words with blanks", many(lambda k: (f" p{k} ", f"p{k}")), **role),
        Kind("ids: NA is one", [*many(lambda k: (f"p{k}",) * 2)[:-1], ("NA", "NA")], **role),
        Kind("ids: codes 1E5", many(lambda k: (f"{k}E5",) * 2), **role),
        Kind("ids: dates", many(lambda k: (f"{day('2024-01-01') + pd.Timedelta(k, 'D'):%Y-%m-%d}",)
                                * 2), **role),
        Kind("ids: True/False", [("True", True), ("False", False)], **role),
        Kind("ids: Categorical", named, dtype="category", **role),
        # Without an id the draw depends on the inputs, in `train` as in `predict`.
        Kind("draws of integers", INTEGERS, method="draws"),
        Kind("draws of floats", FLOATS, comma=commas(FLOATS), method="draws"),
        Kind("draws of words", [*COLOURS, ("", None)], method="draws"),
        Kind("draws of booleans", [("True", True), ("False", False), ("", None)], method="draws"),
        Kind("draws of dates", dated("%Y-%m-%d"), method="draws"),
    ]  # fmt: skip


def tables() -> list[Kind]:
    """Files that are laid out otherwise than the training table."""
    usual = [*COLOURS, ("", None)]
    refused = {"expect": dict.fromkeys((*FILES, "python", "python text"), REFUSED)}
    exact = {"expect": dict.fromkeys(("parquet", "text parquet", "python",
                                      "python text"), EITHER)}  # fmt: skip
    return [
        Kind("columns in another order", usual, dialect={"order": "reversed"}),
        Kind("columns that the run does not know", usual, dialect={"extra": True}),
        Kind("no label", usual, dialect={"without": ("y",)}),
        Kind("no id, no label", usual, dialect={"without": ("y", "id")}),
        Kind("byte-order mark", usual, dialect={"bom": True}),
        Kind("byte-order mark, first column an input", usual, dialect={"bom": True, "first": "k"}),
        Kind("ends of lines of Windows", usual, dialect={"newline": "\r\n"}),
        Kind("all cells in quotes", usual, dialect={"quote": True}),
        Kind("all cells in quotes, numbers", [*INTEGERS, ("", None)], dialect={"quote": True}),
        Kind("a first line sep=", usual, dialect={"hint": True}),
        Kind("a separator at the end of lines", usual, dialect={"trailing": True}),
        Kind("no newline at the end", usual, dialect={"cut": True}),
        Kind("empty lines at the end", usual, dialect={"empty_lines": 3}),
        Kind("blanks after separators", usual, dialect={"blank": " "}),
        Kind("blanks after separators, numbers", [*INTEGERS, ("NA", None)], dialect={"blank": " "}),
        Kind("blanks after separators, quoted", pairs("a,b", "c", "d;e"), dialect={"blank": " "}),
        Kind("blanks around names", usual, dialect={"names": " {} "}, **exact),
        Kind("an index without a name", usual, dialect={"index": True}),
        Kind("a capital ending", usual, dialect={"capital": True}),
        Kind("an input twice", usual, dialect={"twice": "k"}, **refused),
        Kind("S twice", usual, dialect={"twice": "s"}, **refused),
        Kind("an input is missing", usual, dialect={"without": ("k",)}, **refused),
        Kind("S is missing", usual, dialect={"without": ("s",)}, **refused),
        Kind("new words in new rows", COLOURS, new=[*COLOURS, ("mauve", "mauve")]),
        Kind("new codes in new rows", [("1", 1), ("2", 2), ("3", 3)], **CODES,
             new=[("1", 1), ("2", 2), ("3", 3), ("9", 9)]),
        Kind("missing words in new rows", COLOURS, new=[*COLOURS, ("", None)]),
        Kind("missing numbers in new rows", INTEGERS, new=[*INTEGERS, ("", None)]),
        Kind("missing codes in new rows", pairs("1", "2", "3", of=int), **CODES,
             new=[*pairs("1", "2", "3", of=int), ("", None)]),
        Kind("missing booleans in new rows", [("True", True), ("False", False)],
             new=[("True", True), ("False", False), ("", None)]),
        Kind("missing dates in new rows", dated("%Y-%m-%d"), new=[*dated("%Y-%m-%d"), ("", None)]),
        Kind("all words missing in new rows", COLOURS, new=[("", None)]),
        Kind("all numbers missing in new rows", INTEGERS, new=[("", None)]),
        Kind("all dates missing in new rows", dated("%Y-%m-%d"), new=[("", None)]),
        Kind("all booleans missing in new rows", [("True", True), ("False", False)],
             new=[("", None)]),
        Kind("floats where training had integers", INTEGERS, new=pairs("3.5", "7.25", of=float),
             comma=["3,5", "7,25"]),
        Kind("numbers beyond those of training", INTEGERS, new=pairs("-999", "99999", of=int)),
        Kind("times where training had dates", dated("%Y-%m-%d"),
             new=[("2024-03-01 10:00:00", day("2024-03-01 10:00:00")),
                  ("2023-03-01 23:30:00", day("2023-03-01 23:30:00"))]),
        Kind("one boolean only in new rows", [("True", True), ("False", False)],
             new=[("True", True)]),
        Kind("codes without the one with a letter", pairs("1E5", "2E3", "AB1"),
             new=pairs("1E5", "2E3")),
        Kind("codes without the one with a zero", pairs("011", "12", "13"), new=pairs("12", "13")),
        Kind("words true and false only in new rows", pairs("true", "false", "perhaps"),
             new=pairs("true", "false")),
    ]  # fmt: skip


def only_text(kind: Kind) -> Kind:
    """Return a kind of file to decide on, for a run that was trained on text."""
    return replace(kind, trained=("csv",)) if kind.dialect else kind


KINDS = [
    *plain_numbers(), *typed_numbers(), *missing_words(), *booleans(), *codes(), *words(), *times(),
    *sensitive(), *clients(), *labels(), *ids(), *map(only_text, tables()),
]  # fmt: skip


def contradictions() -> list[Kind]:
    """Files whose cells contradict what was learnt in training: refused, unless forced."""
    words, iso = pairs("low", "mid", "high"), dated("%Y-%m-%d")
    flags = [("True", True), ("False", False)]
    numbers = pairs("1.5", "2.25", "3.75", of=float)
    return [
        Kind("words for numbers", INTEGERS, new=words),
        Kind("words for some numbers", INTEGERS, new=pairs("3", "7", "12", "low", "mid", "high")),
        Kind("dates for numbers", INTEGERS, new=iso),
        Kind("booleans for numbers", pairs("3.5", "7.25", "12.0", of=float), new=flags),
        Kind("numbers for words", COLOURS, new=numbers),
        Kind("dates for words", COLOURS, new=iso),
        Kind("booleans for words", COLOURS, new=flags),
        Kind("words for dates", iso, new=words),
        Kind("numbers for dates", iso, new=numbers),
        Kind("other dates for dates", iso, new=[(f"the {text}",) * 2 for text in DATES]),
        Kind("numbers for booleans", flags, new=numbers),
        Kind("words for booleans", flags, new=words),
        Kind("numbers with units for numbers", INTEGERS, new=pairs("3 kg", "7 kg", "12 kg")),
    ]


CONTRADICTIONS = contradictions()
