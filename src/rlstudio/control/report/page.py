"""The page itself: one file of HTML with style, script, pictures and films inside, which opens without a network."""

from __future__ import annotations

from html import escape
from importlib.resources import files
from pathlib import Path

from rlstudio.control.report.content import ReportContent
from rlstudio.control.report.measured_section import curves, evaluations, small_charts
from rlstudio.control.report.overview import groups_table, header, tiles
from rlstudio.control.report.record_section import films, incidents, origins, settings
from rlstudio.control.report.sweep_section import sweep_sections
from rlstudio.core.timestamps import timestamp
from rlstudio.core.version import __version__
from rlstudio.storage.output_file import output_path, written_whole

SUFFIXES = (".html", ".htm")

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; media-src data:"
"""Whatever a name or a setting holds: the page can ask nobody for anything."""


def write_page(content: ReportContent, path: str | Path) -> Path:
    """The page as a file."""
    target = output_path(path, SUFFIXES)
    with written_whole(target) as partial:
        partial.write_text(page_text(content), encoding="utf-8")
    return target


def page_text(content: ReportContent) -> str:
    body = "".join(
        part(content)
        for part in (
            header,
            tiles,
            curves,
            sweep_sections,
            groups_table,
            small_charts,
            evaluations,
            films,
            incidents,
            settings,
            origins,
        )
    )
    made = f"RLStudio {__version__}, {timestamp()}"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(content.title)}</title>\n<style>\n{_part('page.css')}</style>\n</head>\n<body>\n"
        f'<main>{body}<footer>{escape(made)}</footer></main>\n<div id="tip"></div>\n'
        f"<script>\n{_part('page.js')}</script>\n</body>\n</html>\n"
    )


def _part(name: str) -> str:
    return files("rlstudio.control.report").joinpath(name).read_text(encoding="utf-8")
