from benchmarks.metric_index import measure


def test_each_look_is_a_row(tmp_path):
    rows = measure(2000, tmp_path)
    assert [label for label, _ in rows][0] == "the first look"
    assert all(value.endswith(" ms") for _, value in rows)
