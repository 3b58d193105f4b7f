"""Stand in for three builds and a hosted judge: python make_builds.py TABLE.

Writes a table of replies for a release and for two later builds, and a folder of answers for each. The answers are those of
replies-answers, with every percentage moved by at most 2, as a hosted judge never answers twice alike.
"""

import csv
import json
import random
import re
import sys
from pathlib import Path

ANSWERS = Path("replies-answers/answers.jsonl").read_text("utf-8").splitlines()
# Each question has two replies. The release gives the first one; `small` changes two of ten, and `broken` all.
BUILDS = {"release": (), "small": (5, 8), "broken": range(10)}


def main(replies: Path) -> None:
    """Write the tables and the answers."""
    rows = list(csv.DictReader(replies.read_text("utf-8").splitlines()))
    for build, changed in BUILDS.items():
        chosen = [rows[2 * number + (number in changed)] for number in range(len(rows) // 2)]
        with Path(f"{build}.csv").open("w", encoding="utf-8", newline="") as table:
            writer = csv.DictWriter(table, ("question", "reply"), extrasaction="ignore")
            writer.writeheader()
            writer.writerows(chosen)
        noise = random.Random(build)
        folder = Path(f"{build}-answers")
        folder.mkdir()
        with (folder / "answers.jsonl").open("w", encoding="utf-8") as file:
            for answer in map(json.loads, ANSWERS):
                moved = [
                    f"{key}: {max(0, int(percent) + noise.randint(-2, 2))}"
                    for key, percent in re.findall(r"^([1-5]): (\d+)$", answer["text"], re.MULTILINE)
                ]
                file.write(json.dumps({**answer, "text": "\n".join(moved) or answer["text"]}) + "\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
