#!/usr/bin/env python3
"""Checks logs against tests/data/log.schema.json.

  check_log.py [--torn N] FILE|DIR...    exit 0 when every line of every .ndjson file is a valid record

A process that is killed, or a full disk, may leave a line that was cut; --torn N allows so many in each file.
As a module: records(path, torn=0) gives a file's records, or raises LogError."""
import json
import pathlib
import sys

import jsonschema

SCHEMA = pathlib.Path(__file__).resolve().parents[1] / "data/log.schema.json"
_validators = {}


class LogError(Exception):
    pass


def _validator(kind):
    """One validator a kind: checking all of them against each line would be slow, and its errors unreadable."""
    if not _validators:
        schema = json.loads(SCHEMA.read_text())
        for name, definition in schema["$defs"].items():
            _validators[name] = jsonschema.Draft202012Validator(definition)
    return _validators.get(kind)


def _check(record, where):
    if not isinstance(record, dict) or not isinstance(record.get("k"), str):
        raise LogError(f"{where}: not a record")
    validator = _validator(record["k"])
    if not validator:
        raise LogError(f"{where}: unknown kind {record['k']}")
    error = jsonschema.exceptions.best_match(validator.iter_errors(record))
    if error:
        raise LogError(f"{where}: {record['k']}: {'.'.join(map(str, error.path))}: {error.message}")


def records(path, torn=0):
    """All records of one file, checked. The first must be a header."""
    found = []
    for number, line in enumerate(pathlib.Path(path).read_bytes().split(b"\n"), 1):
        where = f"{path}:{number}"
        if not line:
            continue
        try:
            record = json.loads(line.decode("utf-8"))
        except ValueError as error:
            torn -= 1
            if torn < 0:
                raise LogError(f"{where}: {error}") from None
            continue
        _check(record, where)
        found.append(record)
    if found and found[0]["k"] != "header":
        raise LogError(f"{path}: begins with {found[0]['k']}, not with header")
    return found


def logs(*places):
    """The .ndjson files of files and directories, in order of name."""
    found = []
    for place in map(pathlib.Path, places):
        found += sorted(place.rglob("*.ndjson")) if place.is_dir() else [place]
    return found


def main(args):
    torn = 0
    if args[:1] == ["--torn"]:
        torn, args = int(args[1]), args[2:]
    if not args or not logs(*args):
        print("check_log: no log there")
        return 1
    bad = 0
    for path in logs(*args):
        try:
            records(path, torn)
        except (LogError, OSError) as error:
            print(error)
            bad += 1
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
