"""The page on Python: its blocks run one behind the other."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


def test_the_page_runs_from_top_to_bottom(spark, tmp_path, monkeypatch):
    from calve.runtime import session

    own = spark.newSession()
    monkeypatch.setattr(session, "start", lambda *_: own)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    for number, block in enumerate(blocks):
        # Java has a working directory of its own.
        block = block.replace('"checkpoint"', repr(str(tmp_path / "checkpoint")))
        exec(compile(block, f"block {number} of python.md", "exec"), names)
    assert len(blocks) > 8
