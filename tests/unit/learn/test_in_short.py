"""Training in short, for the default tests: all the rest of it is in ``make test-full``, because
its files load torch when they are collected.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

K = 3


def test_a_classifier_learns_what_is_not_said_and_comes_back_from_a_file(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="the learn extra is not installed")
    pytest.importorskip("sklearn", reason="the learn extra is not installed")
    from noracle.learn import ComplementaryClassifier

    X = np.repeat(np.eye(K), 40, axis=0)
    truth = np.repeat(np.arange(K), 40)
    said = np.array(["ant", "bee", "cat"])[(truth + 1 + np.arange(120) % 2) % K]
    fitted = ComplementaryClassifier(epochs=40, lr=0.05, random_state=3).fit(X, said)
    assert fitted.predict(np.eye(K)).tolist() == ["ant", "bee", "cat"]
    assert fitted.score(X, said) == 1.0
    again = ComplementaryClassifier(epochs=40, lr=0.05, random_state=3).fit(X, said)
    assert np.array_equal(fitted.predict_proba(X), again.predict_proba(X))
    fitted.save(tmp_path / "model")
    loaded = ComplementaryClassifier.load(tmp_path / "model")
    assert np.array_equal(loaded.predict_proba(X), fitted.predict_proba(X))


def test_every_loss_leads_downhill() -> None:
    torch = pytest.importorskip("torch", reason="the learn extra is not installed")
    from noracle.learn import LOSSES, Transition, get_loss, label_mask

    said = torch.tensor([2, 0, 1, 2])
    mask = label_mask(said, K)
    for name in LOSSES:
        loss = get_loss(name)
        context = loss.make_context(Transition.uniform(K), ruled_out=mask)
        logits = torch.zeros(4, K, requires_grad=True)
        value = loss(logits, mask, context).mean()
        (slope,) = torch.autograd.grad(value, logits)
        assert torch.isfinite(slope).all(), name
        assert (slope[mask] != 0).all(), name
        assert loss(logits - 0.1 * slope, mask, context).mean() < value, name
