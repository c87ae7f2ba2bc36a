"""Files of a run as bodies of answers: attachments whose kind no browser guesses, and nothing that lies elsewhere."""

from __future__ import annotations

import os

import pytest

from rlstudio.control.workspace import Workspace
from support.api_world import api_over, quoted
from support.reading_world import fill

PAGE = b"<script>alert(1)</script>"
STRANGE = 'a"; filename=é.html'


@pytest.fixture(scope="module")
def api(tmp_path_factory):
    place = tmp_path_factory.mktemp("files")
    workspace = Workspace(place / "runs")
    run = fill(workspace).trained_folder_only
    workspace.store.database.close()
    (place / "secret").write_bytes(b"the canary")
    artifacts = place / "runs" / run / "artifacts"
    (artifacts / "videos").mkdir(parents=True)
    for name in ("page.html", "videos/best.mp4", ".unfinished", STRANGE):
        (artifacts / name).write_bytes(PAGE)
    (artifacts / "link.txt").symlink_to(place / "secret")
    (artifacts / "elsewhere").symlink_to(place)
    os.mkfifo(artifacts / "pipe")
    with api_over(place / "runs") as api:
        api.run = run
        yield api


def test_only_files_that_a_run_has_are_listed(api):
    items = api.get(f"/runs/{api.run}/artifacts")["items"]
    assert {item["name"] for item in items} == {"page.html", "videos/best.mp4", STRANGE}
    assert {item["size"] for item in items} == {len(PAGE)}


@pytest.mark.parametrize("name", ["page.html", "videos/best.mp4", STRANGE])
def test_s14_an_artifact_is_an_attachment_that_nothing_runs(api, name):
    answer = api.ask("GET", f"/runs/{api.run}/artifacts/{quoted(name)}")
    assert (answer.status, answer.body) == (200, PAGE)
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["content-disposition"].startswith("attachment; filename*=UTF-8''")
    assert answer.headers["content-security-policy"] == "sandbox; default-src 'none'"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("name", ["link.txt", "elsewhere/secret", "pipe", "videos", "../config.yaml", "none", ""])
def test_what_is_no_file_of_its_is_not_there(api, name):
    answer = api.ask("GET", f"/runs/{api.run}/artifacts/{quoted(name)}")
    assert answer.status == 404
    assert b"canary" not in answer.body


@pytest.mark.parametrize(
    ("wanted", "status", "body"),
    [
        ("bytes=0-7", 206, PAGE[:8]),
        ("bytes=-4", 206, PAGE[-4:]),
        ("bytes=8-", 206, PAGE[8:]),
        ("bytes=0-999", 206, PAGE),
        ("bytes=100-", 416, None),
        ("bytes=5-2", 416, None),
        ("bytes=-", 200, PAGE),
        ("lines=1-2", 200, PAGE),
        ("bytes=0-1,3-4", 416, None),
    ],
)
def test_one_part_of_it_may_be_asked_for(api, wanted, status, body):
    answer = api.ask("GET", f"/runs/{api.run}/artifacts/page.html", Range=wanted)
    assert answer.status == status
    assert body is None or answer.body == body


def test_a_part_of_another_state_is_not_given(api):
    answer = api.ask("GET", f"/runs/{api.run}/artifacts/page.html", Range="bytes=0-7", If_Range='"an older one"')
    assert (answer.status, answer.body) == (200, PAGE)


def test_folders_without_end_and_names_without_an_address_are_passed_over(api, tmp_path):
    """A thousand levels were an error of the server, after seconds of a core; the others were listed and not found."""
    artifacts = api.service.looking.runs_dir / api.run / "artifacts"
    names = (
        "/".join(["deep"] * 20) + "/file",
        "/".join(["deep"] * 21) + "/file",
        "two\nlines.txt",
        os.fsdecode(b"\xff"),
    )
    for name in names:
        (artifacts / name).parent.mkdir(parents=True, exist_ok=True)
        (artifacts / name).write_bytes(PAGE)
    listed = [item["name"] for item in api.get(f"/runs/{api.run}/artifacts")["items"]]
    assert set(names) & set(listed) == {names[0]}
    for name in listed:
        assert api.ask("GET", f"/runs/{api.run}/artifacts/{quoted(name)}").status == 200
