"""Pieces of HTML. Every text goes through `escape`: names, messages and settings may hold anything."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from math import isnan

from rlstudio.core.format_values import interval, number
from rlstudio.ops.statistics import IntervalEstimate

LONGEST_WORD = 48
"""Characters of an id, with room to spare."""


def section(title: str, *parts: str, kind: str = "") -> str:
    """Nothing where there is nothing in it. `kind` "screen": not for paper."""
    body = "".join(parts)
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{body}</section>' if body else ""


def card(*parts: str, kind: str = "") -> str:
    return f'<div class="card {kind}">{"".join(parts)}</div>'


def tile(what: str, value: str, more: str = "") -> str:
    below = f'<div class="more">{escape(more)}</div>' if more else ""
    return card(f'<div class="what">{escape(what)}</div><div class="value">{escape(value)}</div>{below}', kind="tile")


def table(head: Sequence[str], rows: Iterable[Sequence[str]], numbers: Iterable[int] = (), best: int = -1) -> str:
    """`numbers`: columns that stand to the right; `best`: the row that is marked. Cells are escaped here."""
    right = {*numbers}

    def cells(tag: str, row: Sequence[str]) -> str:
        kinds = [' class="n"' if place in right else _whole(cell) for place, cell in enumerate(row)]
        return "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, row, strict=True))

    marks = {best: ' class="best"'}
    body = "".join(f"<tr{marks.get(place, '')}>{cells('td', row)}</tr>" for place, row in enumerate(rows))
    return f'<div class="scroll"><table><thead><tr>{cells("th", head)}</tr></thead><tbody>{body}</tbody></table></div>'


def _whole(cell: str) -> str:
    """A name or an id is not broken at its hyphens."""
    return ' class="whole"' if len(cell) <= LONGEST_WORD and " " not in cell else ""


def facts(values: Mapping[str, object]) -> str:
    """Names and values, without those that are not there."""
    rows = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>"
        for name, value in values.items()
        if value not in (None, "")
    )
    return f"<dl>{rows}</dl>"


def folded(summary: str, *parts: str, kind: str = "") -> str:
    return f'<details class="{kind}"><summary>{escape(summary)}</summary>{"".join(parts)}</details>'


def estimate_text(estimate: IntervalEstimate | None) -> str:
    """A value with its interval; one run has none."""
    if estimate is None:
        return "-"
    ends = "" if isnan(estimate.low) else f" {interval((estimate.low, estimate.high))}"
    return f"{number(estimate.value)}{ends}"


def share_text(estimate: IntervalEstimate | None) -> str:
    """A probability with its interval; one run has none."""
    if estimate is None:
        return "-"
    ends = "" if isnan(estimate.low) else f" [{estimate.low:.2f}, {estimate.high:.2f}]"
    return f"{estimate.value:.2f}{ends}"
