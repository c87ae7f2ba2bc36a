from benchmarks.metric_index import measure


def test_each_look_is_a_row(tmp_path):
    rows = measure(2000, tmp_path)
    assert rows[0][0] == "the first look"
    assert all(value.endswith(" ms") for _, value in rows)
