from __future__ import annotations

import re
from pathlib import Path

import pytest

from noracle.counts import count_accuracy
from noracle.errors import EvidenceError
from noracle.evidence import Evidence
from tests.unit.evidence.bad_inputs import BAD_INPUTS, SECRET, BadInput


@pytest.mark.thin(7)
@pytest.mark.parametrize("case", BAD_INPUTS, ids=[case.id for case in BAD_INPUTS])
@pytest.mark.filterwarnings("ignore::noracle.errors.EvidenceWarning")
def test_malformed_input_gives_one_line_that_says_what_and_where(
    case: BadInput, tmp_path: Path
) -> None:
    arguments = case.write(tmp_path)
    with pytest.raises(EvidenceError) as caught:
        count_accuracy(Evidence.from_tables(**arguments))
    message = str(caught.value)
    assert re.search(case.message, message), message
    assert "\n" not in message
    assert SECRET not in message
    assert message.endswith(".")


def test_the_table_of_bad_inputs_is_long_and_has_no_twins() -> None:
    assert len(BAD_INPUTS) >= 32
    assert len({case.id for case in BAD_INPUTS}) == len(BAD_INPUTS)
