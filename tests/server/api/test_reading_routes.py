"""GET: what the command line prints with --json, and nothing is changed by it."""

from __future__ import annotations

import asyncio
import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rlstudio.cli.app import main
from rlstudio.control.store.pages import SORTABLE
from rlstudio.control.store.records import RunRequest
from rlstudio.core.errors import StorageError
from rlstudio.experiment.metrics.tables import MetricTable
from rlstudio.server.api.routers import PREFIX
from rlstudio.server.api.routes.measured import metrics_csv, metrics_csv_of_runs
from support.api_world import api_over, quoted
from support.path_vectors import TEXTS
from support.reading_world import tree

NUMBERS = ("seed", "epoch", "env_steps", "eval_return", "train_return", "priority")


def printed(capsys, *words):
    main([*map(str, words)])
    return json.loads(capsys.readouterr().out)


def every_get(api, world):
    """Each GET route that is declared and ends, with something for each of its parameters."""
    run = world.trained_folder_only
    values = {"ref": run, "number": "1", "operation": "0" * 24}
    for path, operations in api.app.openapi()["paths"].items():
        if "get" not in operations or path.endswith("/stream"):
            continue
        names = {"/models/": "cartpole", "/sweeps/": "found", "/presets/": "ppo/cartpole"}
        name = next((text for part, text in names.items() if part in path), "none.txt")
        yield path.format(**values, name=name).removeprefix(PREFIX)


def test_a_list_has_the_documents_of_ls(api, world, runs_dir, capsys):
    mine = {row["id"]: row for row in api.get("/runs")["items"]}
    theirs = {row["id"]: row for row in printed(capsys, "ls", "--json", "--runs-dir", runs_dir)}
    assert set(vars(world).values()) <= mine.keys() == theirs.keys()
    for run_id, row in theirs.items():
        assert row.items() <= mine[run_id].items()


def test_a_run_has_the_document_of_show_without_paths(api, world, runs_dir, capsys):
    shown = printed(capsys, "show", world.trained_folder_only, "--json", "--runs-dir", runs_dir)
    mine = api.get(f"/runs/{world.trained_folder_only}")
    assert shown["checkpoints"]
    for row in (shown, *shown["checkpoints"]):
        del row["path"]
    assert shown.items() <= mine.items()
    assert str(runs_dir) not in json.dumps(mine)


def test_queue_sweep_and_models_are_those_of_the_command_line(api, runs_dir, capsys):
    sweep = printed(capsys, "sweep", "show", "found", "--json", "--runs-dir", runs_dir)
    assert sweep.items() <= api.get("/sweeps/found").items()
    models = printed(capsys, "models", "cartpole", "--json", "--runs-dir", runs_dir)
    assert models.items() <= api.get("/models/cartpole").items()
    mine, theirs = api.get("/queue"), printed(capsys, "queue", "--json", "--runs-dir", runs_dir)
    for name in ("running", "queued", "paused", "not_recorded"):
        assert [row["id"] for row in mine[name]] == [row["id"] for row in theirs[name]]
    assert mine["workers"] == theirs["workers"]
    assert mine["in_use"]["cpus"] == len(mine["running"]) > 0
    assert mine["slots"].keys() == mine["in_use"].keys()


def test_metrics_of_several_runs_are_one_table(api, world):
    """A run that waits has measured nothing and is no row."""

    async def lines(response):
        return "".join([part async for part in response.body_iterator]).splitlines()

    def read(route, runs):
        return asyncio.run(lines(route(None, api.service, runs, "")))

    alone = read(metrics_csv, world.trained_folder_only)
    several = ",".join(row["id"] for row in api.get("/runs")["items"])
    assert world.queued in several
    first, *rows = read(metrics_csv_of_runs, several)
    assert first == "id,name,seed," + alone[0]
    mine = [row for row in rows if row.startswith(world.trained_folder_only)]
    assert len(mine) > 10
    assert [row.split(",", 3)[3] for row in mine] == alone[1:]
    assert api.ask("GET", "/metrics.csv?runs=").status == 422


def test_metrics_that_cannot_be_read_are_refused_before_the_answer_begins(api, world, monkeypatch):
    """A run that was removed at that moment was a broken connection."""

    def rows(self):
        raise StorageError("metrics.jsonl: is gone")
        yield

    monkeypatch.setattr(MetricTable, "rows", rows)
    answer = api.ask("GET", f"/runs/{world.trained_folder_only}/metrics.csv")
    assert (answer.status, answer.json["error"]) == (507, "StorageError")


def test_no_get_changes_anything(api, world, runs_dir):
    """Every route that OpenAPI declares; those that answer 404 were asked too."""
    before = tree(runs_dir)
    statuses = {path: api.ask("GET", path).status for path in every_get(api, world)}
    assert set(statuses.values()) <= {200, 404, 409, 422}, statuses
    assert sum(status == 200 for status in statuses.values()) > len(statuses) * 2 // 3, statuses
    assert tree(runs_dir) == before


def test_an_empty_place_stays_empty(tmp_path):
    with api_over(tmp_path / "runs") as api:
        before = tree(tmp_path)
        assert api.get("/runs") == {"items": [], "next_cursor": None, "total": 0}
        assert api.get("/sweeps")["items"] == api.get("/models")["items"] == []
        assert api.ask("GET", "/runs/last").status == api.ask("GET", "/sweeps/x").status == 404
        assert tree(tmp_path) == before


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_no_name_leads_out_of_the_runs_folder(api, world, runs_dir, text):
    """In every place of a path that names something, quoted and as it is."""
    outside = runs_dir.parent / "outside"
    outside.mkdir(exist_ok=True)
    (outside / "canary").write_text("the canary")
    places = {"{id}": world.trained_folder_only, "{victim}": "canary", "{outside}": str(outside)}
    given = text
    for place, value in places.items():
        given = given.replace(place, value)
    given = given.encode("utf-8", "replace").decode()
    for hostile in (quoted(given), re.sub("[?#]", "", given)):
        paths = ["/runs/{}", "/runs/{}/log", "/sweeps/{}", "/models/{}", "/presets/{}"]
        for path in [*paths, f"/runs/{world.trained_folder_only}/artifacts/{{}}"]:
            answer = api.ask("GET", path.replace("{}", hostile))
            assert answer.status in (200, 404, 414, 422)
            assert b"the canary" not in answer.body
            assert b"root:" not in answer.body
            assert str(runs_dir).encode() not in answer.body


def test_pages_neither_repeat_nor_miss_a_run_while_others_appear(api, world):
    def ids(sort):
        rows, cursor = [], ""
        while cursor is not None:
            page = api.get(f"/runs?sort={sort}&limit=3&cursor={cursor}")
            rows += [row["id"] for row in page["items"]]
            cursor = page["next_cursor"]
            store.create(RunRequest(name="new", algo="ppo", env_id="CartPole-v1", config_yaml="", config_hash="x"))
        return rows

    store = api.service.acting.store
    for sort in ("-id", "id", "name", "-eval_return", "env_steps", "-state"):
        known = {row["id"] for row in api.get("/runs?limit=500")["items"]}
        rows = ids(sort)
        assert len(rows) == len(set(rows))
        assert known <= set(rows) if sort != "-id" else known == set(rows)


def test_a_forged_cursor_is_refused(api):
    def forged(*parts):
        return quoted(base64.urlsafe_b64encode(json.dumps(parts).encode()).decode())

    for sort in SORTABLE:
        for value in (2**63, -(2**80), 1e308, float("nan"), float("inf"), True, [], {}):
            assert api.ask("GET", f"/runs?sort={sort}&cursor={forged(sort, value, 'x')}").status == 422, (sort, value)
        for word in ("a", "\ud800", "\0"):
            answer = api.ask("GET", f"/runs?sort={sort}&cursor={forged(sort, word, word)}")
            assert answer.status == (422 if sort in NUMBERS else 200), (sort, word)
        assert api.ask("GET", f"/runs?sort={sort}&cursor={forged(sort, None, 3)}").status == 422
        assert api.ask("GET", f"/runs?sort={sort}&cursor={forged(sort, None, 'x')}").status == 200
        assert "sorted by 'age'" in api.ask("GET", f"/runs?sort={sort}&cursor={forged('age', 1, 'x')}").json["detail"]


def test_filters_and_orders_agree_with_python(api, world):
    rows = api.get("/runs?limit=500")["items"]
    for query, keep in {
        "state=interrupted": lambda row: row["state"] == "INTERRUPTED",
        "state=running&state=queued": lambda row: row["state"] in ("RUNNING", "QUEUED"),
        "algo=DQN": lambda row: row["algo"] == "dqn",
        "name=living&name=dead": lambda row: row["name"] in ("living", "dead"),
        "q=only": lambda row: "only" in row["name"],
    }.items():
        page = api.get(f"/runs?limit=500&{query}")
        assert {row["id"] for row in page["items"]} == {row["id"] for row in rows if keep(row)}, query
        assert page["total"] == len(page["items"])
    for sort in ("env_steps", "-env_steps", "eval_return", "-eval_return"):
        values = [row[sort.removeprefix("-")] for row in api.get(f"/runs?limit=500&sort={sort}")["items"]]
        known = [value for value in values if value is not None]
        assert known == sorted(known, reverse=sort.startswith("-"))
        assert values == known + [None] * (len(values) - len(known))


def test_the_server_does_not_import_torch(api, world, runs_dir):
    """What needs it runs in the process of the workbench, which is left out here. Every route is asked in a process
    that imported nothing."""
    paths = [*every_get(api, world), "/compare?runs=living", f"/curves?runs={world.trained_folder_only}"]
    code = (
        "import sys\nfrom pathlib import Path\nfrom support.api_world import api_over\n"
        "from rlstudio.server.api.work.workbench import Workbench\nWorkbench.do = lambda *_: {}\n"
        f"with api_over(Path({str(runs_dir)!r})) as api:\n"
        f"    [api.ask('GET', path) for path in {paths}]\n"
        "assert 'torch' not in sys.modules, 'torch was imported'"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parents[2])


def test_a_series_goes_on_from_its_cursor(api, world):
    run = world.trained_folder_only
    names = api.get(f"/runs/{run}/metrics")["names"]
    assert {"name", "kind", "last", "count"} <= names[0].keys()
    whole = api.get(f"/runs/{run}/series")
    assert whole["complete"]
    again = api.get(f"/runs/{run}/series?after={whole['next']}")
    assert again["series"] == {}
    assert not again["complete"]
    assert again["next"] == whole["next"]
    assert api.get(f"/runs/{run}/series?after=forged")["complete"]


def test_a_piece_of_a_log_ends_with_a_whole_letter(api, world):
    text = "a█é🙂" * 20
    api.service.looking.folder(world.trained_folder_only).log_path.write_text(text)
    for limit in (1, 4, 5, 6, 7, 100):
        read, offset = "", 0
        while (piece := api.get(f"/runs/{world.trained_folder_only}/log?offset={offset}&limit={limit}"))["text"]:
            read, offset = read + piece["text"], piece["end"]
        assert (read == text) == (limit >= 4), limit
        assert offset == len(text.encode())
    half = text.encode()[:-2]  # the run is in the middle of writing it
    api.service.looking.folder(world.trained_folder_only).log_path.write_bytes(half)
    piece = api.get(f"/runs/{world.trained_folder_only}/log?offset=0")
    assert (piece["text"], piece["end"]) == (text[:-1], len(half) - 2)


def test_problems_say_which_field(api, world):
    answer = api.ask("GET", "/runs?limit=0")
    assert answer.status == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json["problems"][0]["field"] == "limit"
    series = f"/runs/{world.queued}/series"
    for path, query in (
        ("/runs", "sort=colour"),
        ("/runs", "state=asleep"),
        ("/runs", "cursor=abc"),
        (series, "from=nan"),
        (series, "to=inf"),
    ):
        answer = api.ask("GET", f"{path}?{query}")
        assert answer.status == 422
        assert query.partition("=")[0] in answer.json["detail"]


def test_a_run_says_how_far_it_is_to_go_and_which_checkpoints_are_best_and_last(api, world):
    shown = api.get(f"/runs/{world.trained_folder_only}")
    steps = api.get(f"/runs/{world.trained_folder_only}/config")["config"]["train"]["steps_per_epoch"]
    assert shown["total_steps"] == shown["total_epochs"] * steps > shown["env_steps"]
    items = api.get(f"/runs/{world.trained_folder_only}/checkpoints")["items"]
    assert items == shown["checkpoints"]
    assert "last" in items[-1]["tags"]
    assert sum("best" in item["tags"] for item in items) == 1
    assert api.get(f"/runs/{world.queued}")["total_steps"] is None  # its configuration is none
