#!/usr/bin/env python3
"""The log's JSON Schema and the tables of docs/log-format.md, made from facts/facts.def.

  log_schema.py --check    exit 1 and say which when tests/data/log.schema.json or docs/log-format.md is stale
  log_schema.py --write    write both anew
"""
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = ROOT / "tests/data/log.schema.json"
DOC = ROOT / "docs/log-format.md"
BEGIN, END = "<!-- made by tests/lib/log_schema.py: begin -->", "<!-- made by tests/lib/log_schema.py: end -->"

STRING = r'"((?:[^"\\]|\\.)*)"'
TYPES = {
    "u64": ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "number"),
    "i64": ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, "number, may be negative"),
    "hex": ({"type": "string", "pattern": "^0x(0|[1-9a-f][0-9a-f]{0,15})$"}, "hex string"),
    "str": ({"type": "string"}, "string"),
    "flag": ({"const": True}, "true or absent"),
}


def defines(path):
    """The lines of an X-macro table: (macro, [arguments]) with strings joined and unquoted."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    rows = []
    for macro, inner in re.findall(r"^([A-Z_]+)\(((?:[^()\"]|" + STRING.replace("(", "(?:", 1) + r")*)\)", text, flags=re.M):
        strings = []

        def keep(match):
            strings.append(match.group(1))
            return f"@{len(strings) - 1}"

        args = [a.strip() for a in re.sub(STRING, keep, inner).split(",")]
        rows.append((macro, [re.sub(r"@(\d+)", lambda m: strings[int(m.group(1))], a) for a in args]))
    return rows


def memory_fields():
    return [(name, f"{key} of /proc/meminfo: {doc}") for _, (name, key, doc) in defines("facts/memory_fields.def")]


def kinds():
    """[(kind, doc, [(field, type, unit, doc)])]; a reading of memory is spelt out."""
    found = []
    for macro, args in defines("facts/facts.def"):
        if macro == "FACT":
            found.append((args[0], args[1], []))
        elif macro == "FIELD":
            kind, ctype, name, unit, doc = args
            assert kind == found[-1][0], f"FIELD({kind}, {name}) stands in FACT({found[-1][0]})"
            found[-1][2].append((name, ctype, unit, doc))
        elif macro == "FACT_MEMORY":
            found[-1][2].extend((f"mem_{name}", "u64", "bytes", doc) for name, doc in memory_fields())
    return found


def causes():
    return sorted({args[1] for _, args in defines("facts/causes.def")})


def finding_schema():
    words = lambda *w: {"enum": list(w)}
    items = {"type": "array", "maxItems": 6, "items": {"type": "string"}}
    return {
        "g": {"type": "integer", "minimum": 1, "maximum": 10},
        "verdict": words("PASS", "SKIP", "INFO", "WARN", "FAIL"),
        "cause": words(*causes()),
        "confidence": words("low", "medium", "high"),
        "retry": words("unknown", "useless", "may_help"),
        "object": {"type": "string"},
        "text": {"type": "string", "minLength": 1},
        "evidence": items,
        "fixes": items,
        "ruled_out": items,
        "count": {"type": "integer", "minimum": 1},
        "last": {"type": "integer", "minimum": 0},
        "shown": {"type": "string", "pattern": "^[0-9]+:[0-9]+$"},
        "pid": {"type": "integer", "minimum": 1},
    }


def record(kind, properties, required):
    frame = {"v": {"const": 1}, "t": TYPES["u64"][0], "tid": {"type": "integer", "minimum": 1}, "k": {"const": kind}}
    return {
        "type": "object",
        "properties": {**frame, **properties},
        "required": ["v", "t", "k", *required],
        "additionalProperties": False,
    }


def schema():
    table = kinds()
    defs = {kind: record(kind, {n: TYPES[t][0] for n, t, _, _ in fields}, []) for kind, _, fields in table}
    finding = finding_schema()
    defs["finding"] = record("finding", finding, [key for key in finding if key not in ("shown", "pid")])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "one line of a sparkshim log, version 1",
        "type": "object",
        "required": ["v", "t", "k"],
        "properties": {"k": {"enum": list(defs)}},
        "allOf": [{"if": {"properties": {"k": {"const": k}}}, "then": {"$ref": f"#/$defs/{k}"}} for k in defs],
        "$defs": defs,
    }


def tables():
    lines = []
    for kind, doc, fields in kinds():
        lines += [f"### {kind}", "", doc[0].upper() + doc[1:] + ".", ""]
        rows = [f for f in fields if not f[0].startswith("mem_")]
        if rows:
            lines += ["| field | type | unit | meaning |", "|---|---|---|---|"]
            lines += [f"| {n} | {TYPES[t][1]} | {u} | {d} |".replace("|  |", "| |") for n, t, u, d in rows]
            lines.append("")
        if len(rows) < len(fields):
            lines += ["and one reading of memory: `mem_` fields, below.", ""]
    lines += ["### Fields of a reading of memory", "", "| field | meaning, in bytes |", "|---|---|"]
    lines += [f"| mem_{name} | {doc} |" for name, doc in memory_fields()]
    return "\n".join(lines) + "\n"


def document():
    text = DOC.read_text()
    head, rest = text.split(BEGIN, 1)
    return head + BEGIN + "\n\n" + tables() + "\n" + END + rest.split(END, 1)[1]


def main():
    wanted = {SCHEMA: json.dumps(schema(), indent=1) + "\n", DOC: document()}
    if sys.argv[1:] == ["--write"]:
        for path, text in wanted.items():
            path.write_text(text)
        return 0
    if sys.argv[1:] != ["--check"]:
        sys.exit(__doc__)
    stale = [str(p.relative_to(ROOT)) for p, text in wanted.items() if not p.exists() or p.read_text() != text]
    for path in stale:
        print(f"{path} does not fit facts.def: run tests/lib/log_schema.py --write")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
