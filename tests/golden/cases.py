"""Golden files: what every verb prints as JSON, and a few results that only Python reaches.

One process runs all command lines below in a folder of tables (``tables.py``) and keeps of each its
exit code, its JSON, the first line of stderr, and what it wrote. ``test_golden.py`` compares that
with the files in ``expected/``. Write them again, all or only some cases, after a change that is
meant::

    python tests/golden/cases.py --write
    python tests/golden/cases.py --write estimate/ certify/votes

and read the diff of ``expected/`` before committing it: it is what users would see change. A case
that a change adds or renames is written in the same way; ``--write`` without names also removes the
files of cases that are gone.

What may differ between two runs or two machines is taken out by :func:`stable`, in one place.
"""
# ruff: noqa: E501 (a command line is read as one line)

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import os
import shlex
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.golden import python_results, tables

EXPECTED = Path(__file__).parent / "expected"


class Case(NamedTuple):
    """One command line; ``wrote`` names files whose content is kept too."""

    name: str
    line: str
    wrote: tuple[str, ...] = ()
    needs: str = ""
    """A module without which the case is left out."""


VOLATILE = frozenset({"version", "seconds", "at"})
"""Fields that say by which version, how fast and when something was computed."""


def stable(value: Any, folder: Path) -> Any:
    """The value without what may differ between two runs of the same code.

    Removed are the fields in ``VOLATILE``; the folder of the run is replaced by ``<folder>``.
    Floats keep 9 significant digits.
    """
    if isinstance(value, dict):
        return {k: stable(v, folder) for k, v in value.items() if k not in VOLATILE}
    if isinstance(value, list | tuple):
        return [stable(v, folder) for v in value]
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, str):
        return value.replace(str(folder), "<folder>")
    return value


_PROJECT = (
    "--answers project/answers.csv --judgements project/judgements.csv --items project/items.csv"
)
_WORLD = "--answers world/answers.csv --judgements world/judgements.csv --items world/items.csv"
_SETS = "--answers sets/answers.csv --judgements sets/judgements.csv --items sets/items.csv"
_MIXED = "--answers mixed/answers.csv --judgements mixed/judgements.csv --items mixed/items.csv"
_BIASED = "--answers biased/answers.csv --judgements biased/judgements.csv --items biased/items.csv"
_NAMES = "--classes bird,cat,dog,fish"
_ASKED = f"--answers design/answers.csv --judgements design/asked.csv {_NAMES}"
_OFTEN = f"--answers design/repeats.csv --judgements design/asked.csv {_NAMES}"
_AIMED = f"--answers design/answers.csv --judgements design/targeted.csv {_NAMES}"
_RULED = f"--answers design/answers.csv --judgements design/ruled_out.csv {_NAMES}"
_WIDE = "--answers wide/all.csv --wide --systems m1,m2 --item question_id --n-classes 3"
_RATED = "--ratings ratings/long.csv --answers ratings/answers.csv"
_GRADERS = "--answers graders/answers.csv --classes A,B"
_FOUR = "--answers graders/four.csv --classes u,v,w"
_PILOT = "--pilot scores/wide.csv --target human --costs scores/prices.toml"
_SEARCH = (
    "search --items models/items.jsonl --judgements models/judgements.csv --model script:models/model.json "
    "--yes --no-cache --budget 4000 --generations 2 --baseline direct --baseline cot --json"
)

CASES = (
    Case("simulate/world", "simulate --n-items 40 --n-classes 3 --seed 1 --out drawn --json", ("drawn/answers.csv", "drawn/judgements.csv", "drawn/key.csv")),
    Case("estimate/save-counts", f"estimate {_WORLD} --save-counts counts.json --json", ("counts.json",)),
    Case("alarm/save-sketch", f"alarm {_GRADERS} --spec 'accuracy > 1/2' --save-sketch sketch.json --json", ("sketch.json",)),
    Case("plan/folder", "plan project --half-width 0.02 --out folder-plan.json --json"),
    Case("plan/pilot-budget", f"plan {_PILOT} --budget 500 --have pilot --json"),
    # init, demo, report, watch
    Case("init/default", "init other --json", ("other/answers.csv", "other/judgements.csv", "other/ratings.csv", "other/noracle.toml")),
    Case("init/exists", "init project --json"),
    Case("demo/small", "demo --n-items 200 --seed 7 --out demo --json"),
    Case("report/project", "report project --json"),
    Case("report/files", "report world/answers.csv world/judgements.csv world/items.csv --confidence 0.9 --seed 1 --json"),
    Case("report/grades", "report grades/answers.csv grades/grades.csv --json"),
    Case("report/judged", "report judged --json"),
    Case("report/broken", "report broken --json"),
    Case("report/scores", "report scores/long.csv --target human --json"),
    Case("report/empty", "report wrong/columns.csv --json"),
    Case("report/settings", "report wrong --json"),
    Case("report/no-folder", "report nowhere --json"),
    Case("watch/project", "watch watched --once --no-page --json"),
    Case("watch/again", "watch watched-again --once --no-page --json"),
    Case("watch/alarm", "watch watched-broken --once --no-page --json"),
    # simulate
    Case("simulate/errors", "simulate --n-items 60 --n-classes 4 --system a=0.6 --false-no 0.1 --unsure 0.2 --bias 0.3 --seed 2 --out drawn2 --json"),
    Case("simulate/transition", "simulate --n-items 60 --n-classes 4 --transition design/matrix.json --n-questions 0 --n-complementary 50 --out drawn3 --json", ("drawn3/judgements.csv",)),
    Case("simulate/rehearse", "simulate --answers world/answers.csv --items world/items.csv --key world/key.csv --n 200 --worlds 3 --out rehearsed.csv --json"),
    Case("simulate/rehearse-grades", "simulate --answers world/answers.csv --items world/items.csv --key world/key.csv --protocol grades --n 100 --out rehearsed2.csv --json"),
    Case("simulate/rehearse-targeted", "simulate --answers world/answers.csv --items world/items.csv --key world/key.csv --design targeted --n 100 --out rehearsed3.csv --json"),
    Case("simulate/unknown-accuracy", "simulate --system a=1.5 --out never --json"),
    # rank, gate
    Case("rank/arena", "rank preferred/arena.csv --win-rates --json"),
    Case("rank/ignore", "rank preferred/arena.csv --position ignore --confidence 0.9 --json"),
    Case("rank/judge", "rank preferred/judged.csv --judge model --win-rates --json"),
    Case("rank/next", "rank preferred/judged.csv --judge model --next 20 --cost judge=0.1 --out next.csv --json", ("next.csv",)),
    Case("rank/no-judge", "rank preferred/judged.csv --judge nobody --json"),
    Case("rank/columns", "rank wrong/columns.csv --json"),
    Case("gate/at-least", "gate project --at-least 0.7 --ledger gate.jsonl --json"),
    Case("gate/no-worse", "gate project --system agent-2 --no-worse-than agent-1 --ledger no-worse.jsonl --json"),
    Case("gate/no-claim", "gate project --json"),
    # estimate
    Case("estimate/project", f"estimate {_PROJECT} --json"),
    Case("estimate/records", f"estimate {_WORLD} --system good --eval-results r.yaml --benchmark a/b:c --badge b.svg --json", ("r.yaml", "b.svg")),
    Case("estimate/system", f"estimate {_WORLD} --system good --json"),
    Case("estimate/counts", "estimate --counts counts.json --counts counts.json --json"),
    Case("estimate/counts-alone-ivw", "estimate --counts counts.json --system poor --method ivw --interval wald --json"),
    Case("estimate/sets", f"estimate {_SETS} --json"),
    Case("estimate/mixed", f"estimate {_MIXED} --false-no 0.05 --false-yes 0.02 --json"),
    Case("estimate/biased", f"estimate {_BIASED} --json"),
    Case("estimate/biased-strict", f"estimate {_BIASED} --strict --json"),
    Case("estimate/no-check", f"estimate {_BIASED} --no-check --json"),
    Case("estimate/beyond", "estimate --counts counts.json --population beyond --side lower --confidence 0.9 --json"),
    Case("estimate/anytime", "estimate --counts counts.json --interval anytime --json"),
    Case("estimate/exact", "estimate --counts counts.json --interval exact --system good --json"),
    Case("estimate/fixed-n", "estimate --counts counts.json --interval fixed-n --system good --json"),
    Case("estimate/betting", "estimate --counts sets.json --interval betting --system a --json"),
    Case("estimate/profile", "estimate --counts sets.json --interval profile --system a --json"),
    Case("estimate/wald", "estimate --counts sets.json --interval wald --json"),
    Case("estimate/hoeffding", "estimate --counts sets.json --method complementary --interval hoeffding --system a --json"),
    Case("estimate/bernstein", "estimate --counts sets.json --method weighted --interval bernstein --system b --json"),
    Case("estimate/complementary", "estimate --counts sets.json --method complementary --json"),
    Case("estimate/ordinary", "estimate --counts sets.json --method ordinary --json"),
    Case("estimate/weighted", "estimate --counts sets.json --method weighted --weight 0.3 --interval theorem4 --json"),
    Case("estimate/named-classes", f"estimate {_ASKED} --json"),
    Case("estimate/strata", f"estimate {_ASKED} --items design/strata.csv --json"),
    Case("estimate/weights", f"estimate {_ASKED} --items design/weights.csv --json"),
    Case("estimate/clusters", f"estimate {_ASKED} --items design/clusters.csv --population beyond --json"),
    Case("estimate/clusters-ignored", f"estimate {_ASKED} --items design/clusters.csv --population beyond --clusters ignore --json"),
    Case("estimate/propensities", f"estimate {_AIMED} --json"),
    Case("estimate/propensities-guess", f"estimate {_AIMED} --guess column --json"),
    Case("estimate/transition", f"estimate {_RULED} --transition design/matrix.json --json"),
    Case("estimate/grades", "estimate --grades grades/grades.csv --json"),
    Case("estimate/grades-answers", "estimate --grades grades/grades.csv --answers grades/answers.csv --items grades/items.csv --json"),
    Case("estimate/grades-drawn", "estimate --grades grades/drawn.csv --answers grades/answers.csv --json"),
    Case("estimate/repeats-mean", f"estimate {_OFTEN} --json"),
    Case("estimate/repeats-all", f"estimate {_OFTEN} --repeats all --json"),
    Case("estimate/repeats-any", f"estimate {_OFTEN} --repeats any --json"),
    Case("estimate/wide", f"estimate {_WIDE} --label gold --ruled-out not_this --json"),
    Case("estimate/columns", "estimate --answers wide/answers.csv --judgements wide/judgements.csv --columns item=question_id,judgements.class=option,judgements.verdict=said --systems m1,m2 --n-classes 3 --json"),
    Case("estimate/invalid", "estimate --answers wrong/answers.csv --judgements wrong/ordinary.csv --n-classes 3 --json"),
    Case("estimate/invalid-refused", "estimate --answers wrong/answers.csv --judgements wrong/ordinary.csv --n-classes 3 --invalid refuse --json"),
    Case("estimate/conflict-dropped", "estimate --answers wrong/answers.csv --judgements wrong/contradiction.csv --n-classes 3 --conflicts drop --json"),
    Case("estimate/promptfoo", "estimate --grades logs/promptfoo.json#Correctness --json"),
    Case("estimate/deepeval", "estimate --grades 'logs/deepeval-results.json#Correctness [GEval]' --json"),
    Case("estimate/inspect", "estimate --grades logs/inspect-new-epochs.eval --json"),
    Case("alarm/inspect", "alarm --answers logs/inspect-new.eval --spec 'accuracy > 1/2' --json"),
    Case("estimate/lm-eval", "estimate --grades logs/samples_mini_gen.jsonl --json"),
    Case("estimate/otel", "estimate --grades logs/otel-events.jsonl --json"),
    Case("estimate/collected", "estimate --project collected/shapes.db#shapes --json"),
    # compare, race, check
    Case("compare/project", f"compare {_PROJECT} --json"),
    Case("compare/wald", f"compare {_WORLD} --interval wald --json"),
    Case("compare/betting", f"compare {_MIXED} --interval betting --systems a,c --json"),
    Case("compare/sets", f"compare {_SETS} --json"),
    Case("estimate/raters", "estimate --grades judged/grades.csv --raters ann --json"),
    # judge
    Case("judge/all", "judge --grades judged/grades.csv --half-width 0.05 --at-most 0.1 --json"),
    Case("judge/one", "judge --grades judged/grades.csv --judge careful --own agent --systems agent --next 20 --seed 3 --out judged-next.csv --json", ("judged-next.csv",)),
    Case("judge/ppi", "judge --grades judged/grades.csv --judge careful --people ann --method ppi --weight 0.8 --side lower --json"),
    Case("judge/beyond", "judge --grades judged/grades.csv --judge careful --population beyond --systems other --json"),
    Case("judge/nobody", "judge --grades grades/grades.csv --json"),
    # compare
    Case("compare/grades", "compare --grades grades/grades.csv --json"),
    Case("compare/grades-clusters", "compare --grades grades/grades.csv --items grades/items.csv --population beyond --json"),
    Case("compare/repeats", f"compare {_OFTEN} --repeats any --json"),
    Case("compare/propensities", f"compare {_AIMED} --json"),
    Case("compare/strata", f"compare {_ASKED} --items design/strata.csv --json"),
    Case("compare/one-system", f"compare {_BIASED} --json"),
    Case("race/decided", f"race {_WORLD} --json"),
    Case("race/undecided", f"race {_SETS} --json"),
    Case("race/grades", "race --grades grades/grades.csv --json"),
    Case("race/propensities", f"race {_AIMED} --confidence 0.9 --json"),
    Case("check/project", f"check {_PROJECT} --json"),
    Case("check/biased", f"check {_BIASED} --json"),
    Case("check/by-rater", f"check {_ASKED} --by rater --json"),
    Case("check/by-time", f"check {_ASKED} --by time --json"),
    Case("check/at-least", f"check {_WORLD} --system good --at-least 0.7 --json"),
    Case("check/at-most", f"check {_WORLD} --system poor --at-most 0.7 --json"),
    Case("check/sets", f"check {_SETS} --protocol sets --json"),
    Case("check/grades", "check --grades grades/grades.csv --answers grades/answers.csv --json"),
    Case("check/propensities", f"check {_AIMED} --json"),
    Case("check/counts", "check --counts counts.json --json"),
    Case("check/collected", "check --project collected/shapes.db#shapes --json"),
    # mean, plan, route
    Case("mean/wide", "mean --data scores/wide.csv --target human --json"),
    Case("mean/long", "mean --data scores/long.csv --target human --raters human,judge --json"),
    Case("mean/jackknife", "mean --data scores/wide.csv --target human --interval jackknife-t --json"),
    Case("mean/paper", "mean --data scores/wide.csv --target human --interval paper --side lower --json"),
    Case("mean/anytime", "mean --data scores/wide.csv --target human --interval anytime --json"),
    Case("mean/classical", "mean --data scores/wide.csv --target human --interval classical --json"),
    Case("mean/difference", "mean --data scores/wide.csv --target human=1,judge=-1 --json"),
    Case("mean/strata", "mean --data scores/strata.csv --target human --strata region --share north=0.5 --share south=0.5 --json"),
    Case("mean/plan", "mean --data scores/wide.csv --plan budget.json --json"),
    Case("mean/unknown-target", "mean --data scores/wide.csv --target nobody --json"),
    Case("plan/half-width", "plan --n-classes 10 --accuracy 0.8 --half-width 0.02 --cost ordinary=1 --cost complementary=0.2 --cap ordinary=500 --verify --json"),
    Case("plan/budget", "plan --n-classes 5 --accuracy 0.9 --budget 300 --cost ordinary=4 --cost question=0.6 --json"),
    Case("plan/match", "plan --n-classes 10 --accuracy 0.8 --match 200 --json"),
    Case("plan/difference", "plan --n-classes 4 --accuracy 0.8 --difference 0.05 --disagreement 0.2 --power 0.9 --json"),
    Case("plan/finite", "plan --n-classes 4 --accuracy 0.8 --half-width 0.05 --n-items 800 --kind question --json"),
    Case("plan/grades", "plan --grades grades/grades.csv --half-width 0.05 --json"),
    Case("plan/too-few", "plan world --half-width 0.001 --json"),
    Case("plan/pilot-half-width", f"plan {_PILOT} --half-width 0.02 --verify --json"),
    Case("plan/pilot-missed", f"plan {_PILOT} --half-width 0.001 --budget 50 --json"),
    Case("plan/pilot-budgets", f"plan {_PILOT} --cost minutes:human=3 --budget money=500 --budget minutes=300 --json"),
    Case("plan/pilot-strata", "plan --pilot scores/strata.csv --strata region --target human --costs scores/prices.toml --budget 400 --json"),
    Case("plan/assign", f"plan {_PILOT} --budget 20 --items scores/items.csv --assign assigned.csv --seed 3 --json", ("assigned.csv",)),
    Case("plan/nothing", "plan --json"),
    Case("route/uniform", "route --answers world/answers.csv --items world/items.csv --n 50 --seed 7 --out asked.csv --json", ("asked.csv",)),
    Case("route/targeted", "route --answers world/answers.csv --items world/items.csv --design targeted --epsilon 0.1 --n 50 --seed 7 --out aimed.csv --json", ("aimed.csv",)),
    Case("route/grades", "route --answers grades/answers.csv --grades grades/grades.csv --n 40 --seed 7 --out to-grade.csv --json", ("to-grade.csv",)),
    Case("route/plan", "route --answers project/answers.csv --items project/items.csv --plan plan.json --seed 7 --out planned.jsonl --json"),
    # certify, ceiling, agreement
    Case("certify/project", "certify --ratings project/ratings.csv --answers project/answers.csv --trained-on-annotators no --json"),
    Case("certify/long", f"certify {_RATED} --trained-on-annotators no --json"),
    Case("certify/margin", f"certify {_RATED} --system strong --margin 0.02 --confidence 0.99 --json"),
    Case("certify/known", f"certify {_RATED} --known ratings/known.csv --trained-on-annotators no --json"),
    Case("certify/clusters", f"certify {_RATED} --items ratings/items.csv --trained-on-annotators no --json"),
    Case("certify/votes", "certify --ratings ratings/votes.csv --votes --answers ratings/answers.csv --trained-on-annotators no --json"),
    Case("certify/wide", "certify --ratings ratings/wide.csv --wide --raters ann,bob,cy --item q --systems strong --trained-on-annotators no --json"),
    Case("certify/bernstein", f"certify {_RATED} --system strong --test bernstein --ceiling plurality --json"),
    Case("certify/paper", "certify --ratings ratings/wide.csv --wide --raters ann,bob,cy --item q --systems strong --test paper-hms --ceiling paper --json"),
    Case("certify/dawid-skene", f"certify {_RATED} --system strong --aggregate dawid-skene --json"),
    Case("certify/random-ties", f"certify {_RATED} --system strong --ties random --seed 4 --json"),
    Case("ceiling/project", "ceiling --ratings project/ratings.csv --json"),
    Case("ceiling/all", "ceiling --ratings ratings/long.csv --method all --json"),
    Case("ceiling/by-annotators", "ceiling --ratings ratings/long.csv --by-annotators --json"),
    Case("ceiling/votes", "ceiling --ratings ratings/votes.csv --votes --json"),
    Case("ceiling/cuts", "ceiling --ratings ratings/scores.csv --cuts 0.3,0.7 --labels low,mid,high --json"),
    Case("ceiling/first", "ceiling --ratings ratings/long.csv --first 2 --method quadratic --json"),
    Case("agreement/project", "agreement --ratings project/ratings.csv --json"),
    Case("agreement/all", "agreement --ratings ratings/long.csv --statistic pairwise,cohen,fleiss,krippendorff --n-boot 200 --json"),
    Case("agreement/wide", "agreement --ratings ratings/wide.csv --wide --raters ann,bob,cy --item q --n-boot 200 --json"),
    Case("agreement/votes", "agreement --ratings ratings/votes.csv --votes --n-boot 200 --json"),
    Case("agreement/cuts-ordinal", "agreement --ratings ratings/scores.csv --cuts 0.3,0.7 --labels low,mid,high --statistic krippendorff --metric ordinal --n-boot 200 --json"),
    Case("agreement/pair", "agreement --ratings ratings/long.csv --statistic cohen --pair ann,bob --n-boot 200 --seed 5 --json"),
    Case("ceiling/thresholds", "ceiling --ratings ratings/scores.csv --cuts 0.3,0.7 --labels 1,2,3 --thresholds --json"),
    # alarm, ranges, conflict, verify
    Case("alarm/fires", f"alarm {_FOUR} --spec 'accuracy > 0.7' --json"),
    Case("alarm/broken", "alarm --answers broken/answers.csv --classes A,B --spec 'accuracy > 1/2' --json"),
    Case("alarm/quiet", f"alarm {_GRADERS} --spec 'accuracy > 0.2' --trace A --threshold --json"),
    Case("alarm/overall", f"alarm {_FOUR} --spec 'accuracy > 0.8' --overall --json"),
    Case("alarm/known", f"alarm {_GRADERS} --spec 'accuracy > 0.6' --known graders/known.csv --json"),
    Case("alarm/prevalence", f"alarm {_GRADERS} --spec 'accuracy > 0.5' --prevalence A=200..240 --json"),
    Case("alarm/sketch", "alarm --sketch sketch.json --sketch sketch.json --spec 'accuracy > 1/2' --json"),
    Case("alarm/project", f"alarm {_PROJECT} --spec 'accuracy > 1/2' --json"),
    Case("alarm/bad-spec", f"alarm {_GRADERS} --spec 'accuracy >> 2' --json"),
    Case("alarm/preferences", "alarm --preferences preferred/arena.csv --spec 'agreement > 0.8' --order one --json"),
    Case("alarm/preferences-items", "alarm --preferences preferred/arena.csv --spec 'agreement > 0.8' --json"),
    Case("alarm/preferences-answers", f"alarm {_GRADERS} --preferences preferred/arena.csv --spec 'agreement > 0.8' --json"),
    Case("alarm/at-each", "alarm --answers graders/four.csv --classes u,v,w --spec 'grade at each > 0.9' --json"),
    Case("conflict/preferences", "conflict --preferences preferred/arena.csv --spec 'agreement > 0.8' --order one --least --json"),
    Case("ranges/preferences", "ranges --preferences preferred/arena.csv --order one --json"),
    Case("ranges/plain", f"ranges {_GRADERS} --json"),
    Case("ranges/given", f"ranges {_GRADERS} --given 'accuracy of g0 > 1/2; accuracy of g2 > 1/2' --prevalence A=200..240 --json"),
    Case("ranges/known", f"ranges {_GRADERS} --known graders/known.csv --json"),
    Case("ranges/outer", f"ranges {_FOUR} --outer --json"),
    Case("ranges/check-next", f"ranges {_GRADERS} --given 'accuracy > 0.2' --only 'accuracy of g0 on A' --check-next --json"),
    Case("ranges/contradiction", "ranges --answers broken/answers.csv --classes A,B --given 'accuracy > 1/2' --json"),
    Case("conflict/least", f"conflict {_FOUR} --spec 'accuracy > 0.7' --least --json"),
    Case("conflict/check-next", f"conflict {_GRADERS} --spec 'accuracy > 0.5' --check-next --json"),
    Case("conflict/none", f"conflict {_GRADERS} --spec 'accuracy > 0.1' --json"),
    Case("verify/plan", "verify plan.json --json"),
    Case("verify/budget", "verify budget.json --json"),
    Case("verify/proof", "verify proof.json --json"),
    Case("verify/certificate", "verify certificate.json --json"),
    Case("verify/export", "verify collected/shapes.zip --json"),
    Case("verify/published", "verify collected/shapes.zip --published 0000 --json"),
    Case("verify/running", "verify collected/shapes.db#shapes --json"),
    Case("verify/broken", "verify wrong/tampered.json --json"),
    Case("verify/no-json", "verify wrong/text.json --json"),
    Case("verify/estimate", "verify estimate.json --json"),
    # ask, search, workflow, collect, learn
    Case("ask/direct", "ask --items models/items.jsonl --model script:models/model.json --yes --no-cache --concurrency 1 --out asked-answers.csv --json", ("asked-answers.csv",)),
    Case("ask/cot", "ask --items models/items.jsonl --model script:models/model.json --workflow cot --limit 10 --no-shuffle --yes --no-cache --concurrency 1 --out cot.csv --json", ("cot.csv",)),
    Case("ask/judge", "ask --judge --answers models/answers.csv --items models/items.jsonl --model script:models/judge.json --yes --no-cache --concurrency 1 --out verdicts.csv --json", ("verdicts.csv",)),
    Case("ask/cap", "ask --items models/items.jsonl --model script:models/model.json --max-calls 5 --yes --no-cache --concurrency 1 --out capped.csv --json"),
    Case("search/mutate", f"{_SEARCH} --strategy mutate --out search-mutate"),
    Case("search/halving", f"{_SEARCH} --strategy halving --out search-halving"),
    Case("search/pool", "search --answers world/answers.csv --judgements world/judgements.csv --n-classes 5 --strategy halving --out search-pool --json"),
    Case("workflow/list", "workflow show --json"),
    Case("workflow/debate", "workflow show debate --json"),
    Case("workflow/cot-sc", "workflow show cot-sc --json"),
    Case("workflow/unknown", "workflow show nothing --json"),
    Case("collect/simulate", "collect simulate --runs 2 --n-items 200 --json"),
    Case("collect/list", "collect project --db collected/shapes.db --json"),
    Case("collect/show", "collect project shapes --db collected/shapes.db --json"),
    Case("collect/live", "collect project shapes --db collected/shapes.db --live --json"),
    Case("collect/tables", "collect export shapes --db collected/shapes.db --format csv --out exported", ("exported/answers.csv", "exported/judgements.csv", "exported/items.csv")),
    Case("learn/analyse", "learn analyse notes/notes.csv --ruled-out ruled_out --label truth --annotator who --json", needs="torch"),
    Case("learn/fit", "learn fit notes/notes.csv --items text --ruled-out ruled_out --out notes-model --epochs 5 --lr 0.05 --device cpu --precision fp64 --json", needs="torch"),
    # What people get wrong: the exit code and the line that says so.
    Case("errors/no-file", "estimate --answers nowhere.csv --judgements world/judgements.csv --n-classes 5 --json"),
    Case("errors/no-evidence", "estimate --json"),
    Case("estimate/inferred-classes", "estimate --answers world/answers.csv --judgements world/judgements.csv --json"),
    Case("errors/no-column", "estimate --answers wrong/columns.csv --judgements world/judgements.csv --n-classes 5 --json"),
    Case("errors/empty-file", "estimate --answers wrong/empty.csv --judgements world/judgements.csv --n-classes 5 --json"),
    Case("errors/verdict", "estimate --answers wrong/answers.csv --judgements wrong/verdicts.csv --n-classes 3 --json"),
    Case("errors/contradiction", "estimate --answers wrong/answers.csv --judgements wrong/contradiction.csv --n-classes 3 --json"),
    Case("errors/answered-twice", "estimate --answers wrong/twice.csv --judgements wrong/ordinary.csv --n-classes 3 --json"),
    Case("errors/unknown-system", f"estimate {_WORLD} --system nobody --json"),
    Case("errors/confidence", f"estimate {_WORLD} --confidence 1.5 --json"),
    Case("errors/old-wide", "estimate --wide wide/all.csv --n-classes 3 --json"),
    Case("errors/unknown-option", "estimate --nothing --json"),
    Case("errors/bad-choice", f"estimate {_WORLD} --interval narrow --json"),
    Case("errors/matrix", f"estimate {_RULED} --transition design/row.csv --json"),
    Case("errors/counts", "estimate --counts wrong/text.json --json"),
    Case("errors/counts-schema", "estimate --counts wrong/tampered.json --json"),
    Case("errors/votes-and-wide", "ceiling --ratings ratings/votes.csv --votes --wide --json"),
    Case("errors/no-ratings", "certify --json"),
    Case("errors/unknown-verb", "guess --json"),
    Case("errors/plan-goal", "plan --n-classes 4 --accuracy 0.8 --json"),
    Case("errors/prevalence", f"alarm {_GRADERS} --spec 'accuracy > 1/2' --prevalence A=many --json"),
    Case("errors/model", "ask --items models/items.jsonl --json"),
)  # fmt: skip

SLOW = frozenset(
    {
        "agreement/all", "agreement/pair", "alarm/inspect", "alarm/known", "alarm/project",
        "alarm/quiet", "ceiling/cuts", "ceiling/first", "ceiling/project", "certify/bernstein",
        "certify/clusters", "certify/dawid-skene", "certify/known", "certify/long",
        "certify/margin", "certify/paper", "certify/random-ties", "certify/wide",
        "check/at-least", "check/at-most", "check/by-rater", "check/by-time", "check/grades",
        "check/propensities", "check/sets", "compare/betting", "compare/grades",
        "compare/grades-clusters", "compare/one-system", "compare/propensities",
        "compare/repeats", "compare/sets", "compare/strata", "compare/wald", "demo/small",
        "errors/confidence", "errors/contradiction", "errors/unknown-system", "estimate/biased",
        "estimate/biased-strict", "estimate/clusters", "estimate/clusters-ignored",
        "estimate/columns", "estimate/conflict-dropped", "estimate/deepeval", "estimate/grades",
        "estimate/grades-answers", "estimate/grades-drawn", "estimate/inspect",
        "estimate/invalid", "estimate/lm-eval", "estimate/mixed", "estimate/named-classes",
        "estimate/propensities-guess", "estimate/repeats-all", "estimate/repeats-any",
        "estimate/save-counts", "estimate/system", "estimate/transition", "estimate/weights",
        "estimate/wide", "learn/fit", "plan/budget", "plan/grades", "plan/half-width",
        "plan/too-few", "python/aggregate_labels", "python/count_decisions",
        "python/count_patterns", "python/trace", "race/grades", "race/propensities",
        "race/undecided", "ranges/check-next", "ranges/given", "ranges/outer", "ranges/plain",
        "report/broken", "report/files", "route/grades", "search/halving", "search/pool"
    }
)  # fmt: skip
"""Cases that take longer, of verbs that have quick ones too: only ``make test-slow`` and this file
run them.
"""

SAVED = {
    "proof.json": f"alarm {_FOUR} --spec 'accuracy > 0.7' --json",
    "certificate.json": f"certify {_RATED} --trained-on-annotators no --json",
    "estimate.json": f"estimate {_WORLD} --system good --json",
    "counts.json": f"estimate {_WORLD} --save-counts counts.json --json",
    "sets.json": f"estimate {_SETS} --save-counts sets.json --json",
    "sketch.json": f"alarm {_GRADERS} --spec 'accuracy > 1/2' --save-sketch sketch.json --json",
    "plan.json": "plan --n-classes 5 --accuracy 0.8 --half-width 0.08 --kind question --out plan.json --json",
    "budget.json": f"plan {_PILOT} --budget 500 --have pilot --out budget.json --json",
}
"""Files that cases read and verbs write. They are made with the tables, so that a case does not
depend on another one.
"""


def run_line(arguments: Sequence[str]) -> tuple[int, str, str]:
    """One command line in this process: exit code, stdout and stderr."""
    from noracle.cli import run

    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(list(arguments))
    return code, out.getvalue(), err.getvalue()


def prepare(folder: Path) -> None:
    """Write all that the cases read; the folder is the working folder then."""

    def command(arguments: Sequence[str]) -> None:
        code, _, err = run_line(arguments)
        if code:
            raise RuntimeError(f"noracle {shlex.join(arguments)} ended with {code}: {err}")

    tables.make(folder, command)
    command(shlex.split("watch watched-again --once --no-page"))
    for name, line in SAVED.items():
        _, out, _ = run_line(shlex.split(line))
        if not (folder / name).exists():
            (folder / name).write_text(out, encoding="utf-8")


@contextlib.contextmanager
def prepared(folder: Path) -> Iterator[Path]:
    """A working folder with everything in it, and no setting of the user."""
    before, environment = Path.cwd(), dict(os.environ)
    for name in [n for n in os.environ if n.startswith("NORACLE_")]:
        del os.environ[name]
    os.environ["NORACLE_CACHE"] = str(folder / "cache.sqlite")
    os.environ["COLUMNS"] = "100"
    os.chdir(folder)
    try:
        prepare(folder)
        yield folder
    finally:
        os.chdir(before)
        os.environ.clear()
        os.environ.update(environment)


def outcome(case: Case, folder: Path) -> dict[str, Any]:
    """What the case gives, without what may differ between two runs."""
    if "shapes.db" in case.line:
        tables.fresh_database(folder)
    code, out, err = run_line(shlex.split(case.line))
    lines = err.splitlines()
    found: dict[str, Any] = {"command": f"noracle {case.line}", "exit": code}
    if lines:
        found["stderr"] = lines[0]
    if out:
        try:
            found["json"] = json.loads(out)
        except json.JSONDecodeError:
            found["lines"] = [json.loads(x) if x[:1] in "{[" else x for x in out.splitlines() if x]
    if case.wrote:
        found["wrote"] = {name: _written(folder / name) for name in case.wrote}
    return dict(stable(found, folder.resolve()))


def _written(path: Path) -> Any:
    """A JSON file as it is; of another text its number of lines, its first lines and its hash."""
    if not path.exists():
        return None
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".json":
        return json.loads(text)
    lines = text.splitlines()
    digest = hashlib.sha256(text.encode()).hexdigest()
    return {"lines": len(lines), "first": lines[:3], "sha256": digest}


def names() -> list[str]:
    """All cases, those of Python too."""
    return [*(case.name for case in CASES), *(f"python/{name}" for name in python_results.RESULTS)]


def found(name: str, folder: Path) -> dict[str, Any]:
    """What the case of this name gives now."""
    if name.startswith("python/"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = python_results.RESULTS[name.removeprefix("python/")]()
        return dict(stable({"python": value}, folder.resolve()))
    return outcome(next(case for case in CASES if case.name == name), folder)


def needed(name: str) -> str:
    """The module that a case needs; empty for most."""
    return next((case.needs for case in CASES if case.name == name), "")


def path_of(name: str) -> Path:
    """Where the golden file of a case is."""
    return EXPECTED / f"{name}.json"


def differences(expected: Any, now: Any, where: str = "$") -> Iterator[str]:
    """One line for each place in which two JSON values differ; floats may differ by 1e-8."""
    if isinstance(expected, dict) and isinstance(now, dict):
        for key in dict.fromkeys([*expected, *now]):
            place = f"{where}.{key}"
            if key not in now:
                yield f"{place}: gone; was {_short(expected[key])}"
            elif key not in expected:
                yield f"{place}: new; is {_short(now[key])}"
            else:
                yield from differences(expected[key], now[key], place)
    elif isinstance(expected, list) and isinstance(now, list):
        if len(expected) != len(now):
            yield f"{where}: {len(now)} entries; was {len(expected)}"
        for i, (a, b) in enumerate(zip(expected, now, strict=False)):
            yield from differences(a, b, f"{where}[{i}]")
    elif type(expected) is not type(now) or not _same(expected, now):
        yield f"{where}: {_short(now)}; was {_short(expected)}"


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, float):
        return abs(a - b) <= max(1e-8 * max(abs(a), abs(b)), 1e-12)
    return bool(a == b)


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 160 else f"{text[:157]}..."


def say(line: str) -> None:
    """One line on stdout."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> int:
    """Write the golden files, or say what differs from them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("names", nargs="*", help="beginnings of the names of cases; default all")
    parser.add_argument("--write", action="store_true", help="write what the code gives now")
    parser.add_argument("--times", action="store_true", help="say how long each case took")
    given = parser.parse_args()
    chosen = [n for n in names() if not given.names or n.startswith(tuple(given.names))]
    differ = 0
    with tempfile.TemporaryDirectory() as place, prepared(Path(place).resolve()) as folder:
        for name in chosen:
            began = time.process_time()
            now, path = found(name, folder), path_of(name)
            if given.times:
                say(f"{time.process_time() - began:6.2f}  {name}  exit {now.get('exit')}")
            if given.write:
                path.parent.mkdir(parents=True, exist_ok=True)
                text = json.dumps(now, ensure_ascii=False, indent=1)
                path.write_text(text + "\n", encoding="utf-8")
                continue
            old = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
            for line in differences(old, now):
                differ += 1
                say(f"{name} {line}")
    if given.write and not given.names:
        kept = {path_of(name) for name in names()}
        for path in EXPECTED.rglob("*.json"):
            if path not in kept:
                path.unlink()
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
