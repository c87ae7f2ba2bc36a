"""The settings `env.params` and `eval.params`: entries in one form, or refused with the place of what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from rlstudio.core.config import refuse
from rlstudio.core.parsing.kinds import fit
from rlstudio.envs.params.parameters import Parameter, ParamValue, parse_parameter

NUMBER = frozenset({float})


def fit_params(value: object) -> object:
    """The entries as hashes count them: numbers as floats, long forms without what is as usual."""
    if not isinstance(value, Mapping):
        return value
    fitted: dict[str, object] = {}
    for name, entry in value.items():
        given = entry if isinstance(entry, Mapping) else _number(str(name), entry)
        try:
            parameter = parse_parameter(str(name), given)
        except ValueError as error:
            refuse((str(name),), str(error))
        fitted[str(name)] = parameter.to_json() if isinstance(given, Mapping) else given
    return fitted


def _number(name: str, entry: object) -> float:
    number = fit(entry, NUMBER, (name,))
    if not isinstance(number, int | float):
        refuse((name,), f"expected a number or what it is drawn from, got {type(entry).__name__}")
    return float(number)


def parse_params(params: Mapping[str, ParamValue]) -> tuple[Parameter, ...]:
    return tuple(parse_parameter(name, entry) for name, entry in params.items())


def numbers_only(params: Mapping[str, ParamValue]) -> bool:
    """Whether all entries are plain numbers under plain names."""
    return all(isinstance(entry, float) and ":" not in name for name, entry in params.items())


def numbers_of(params: Mapping[str, ParamValue]) -> dict[str, float]:
    """The entries that are plain numbers."""
    return {name: entry for name, entry in params.items() if isinstance(entry, float)}


def evaluated_params(params: Mapping[str, ParamValue], given: Mapping[str, ParamValue]) -> dict[str, ParamValue]:
    """What evaluation has: numbers stay, what training draws is at the environment's own value, and what `eval.params`
    gives goes where `env.params` says, so that the agent sees as much as in training."""
    kept: dict[str, ParamValue] = {}
    for name, entry in params.items():
        if name in given:
            kept[name] = _at_same_place(name, entry, given[name])
        elif isinstance(entry, float) or "value" in entry:
            kept[name] = entry
        elif (nominal := parse_parameter(name, entry).nominal_form()) is not None:
            kept[name] = nominal
    return kept | {name: entry for name, entry in given.items() if name not in params}


def _at_same_place(name: str, trained: ParamValue, given: ParamValue) -> ParamValue:
    ours, theirs = parse_parameter(name, trained), parse_parameter(name, given)
    is_plain = isinstance(given, float) and not (ours.observed or ours.scale or ours.kind or ours.address != name)
    if is_plain:
        return given
    return replace(ours, drawn_from=theirs.drawn_from, every=theirs.every).to_json()
