"""JSON in few bytes, for documents in the history that differ only in their numbers.

A text is compressed with a dictionary of what such texts have in common, so that little more than its numbers is left.
"""

from __future__ import annotations

import json
import zlib
from typing import Any

_FORM = b"\x01"
"""The first byte names the dictionary. Stored data needs this one for good: another dictionary gets another byte."""

_COMMON = (
    b'{"why":"","cause":"","causes":[],"part":{},"local":{},"times_judged":1,"newest_alone":false,"rebinned":true,'
    b'"class_mix":{"explains":true,"p_value":"before":"after":},"judged":"plug_in","certainty":"none","before_truth":true,'
    b'"turns_off":[["segments_within":[["segment":["segments":2,"segments_judged":2,"segments_tested":2,"segment_p":'
    b'"segment_evidence":"segments_named":[["small_labels":"likeliest":[["evidence":"needed":"sure":false,"labels":20,'
    b'"average_run_length":"since":"20","path":[["202["enough_evidence",false,["evidence","needed"]]["enough_rows",true,['
    b'"n","rows_needed"]]["behaviour",true,["p_rate","rate"]]["class_mix",true,["class_mix"]]["accepted",false,["rejected"'
    b']]["mature",false,["maturity"]]"rejected":{"reason":"share":"rows":},"maturity":{"known":"expected":"low":"high":},'
    b'"reference":["20"],"moved_share":0.0,"comparable":true,"ece":"ece_low":"ece_high":"nll":"brier":"folds":"points":'
    b'"v_at_equal_size":0.0,"moved_most":"","moved_by":0.0,"merged":[]}{"bins":10,"if_unchanged":0.0'
    b'{"score_band":{"below 0.5":{"all":[0.0},"0.5 to 0.8":{"all":[1,1.0,"predicted":[1,1.0,"automated":[1,1.0},'
    b'"0.8 to 0.9":{"all":[],"predicted":[],"automated":[]},"from 0.9":{"all":[],"predicted":[],"automated":[]}}}'
    b'{"all":[.0,0.],"predicted":[.0,0.],"automated":[.0,0.]}{"at_score":0.,"column":"score","rows_needed":500,'
    b'"n_baseline":0,"condition":"accumulated","condition":"below","condition":"decrease","condition":"above","checks":[['
    b'"readable",true,[]],["rows",true,["n"]],["outside_baseline",true,["baseline_version"]],["baseline",true,['
    b'"baseline_version"]],["test_result",true,["value"]],["beyond",true,["value","threshold"]],["sure",true,["p_value",'
    b'"p_adjusted","rate"]],["could_be_seen",false,["n","rows_needed","detectable","seen_at_most"]]],"rate":0.01,'
    b'"family":20,"rules":1,"beyond":true,"streak":false,"adequate":false,"p_rate":null,"rank":1}'
    b'{"worst_range":[0.0,1.0],"worst_n":1,"worst_gap":-0.0,"blocked":[],"confidence":0.95,"rows_needed":30,'
    b'"seen_at_most":0.0,"promised":0.,"kept":0.,"effective_rows":0.0,"design_effect":1.0,"asks":2,"groups":[{"windows":1,'
    b'"n":1,"value":0.0,"beyond":false},{"windows":1,"n":1,"value":0.0,"beyond":true}],"condition":"above","checks":[['
    b'"readable",true,[]],["rows",true,["n"]],["outside_baseline",true,["baseline_version"]],["beyond",false,["value",'
    b'"threshold"]],["every_window",false,["groups"]],["sure",false,["p_value","p_adjusted","rate"]],["could_be_seen",true,['
    b'"n","rows_needed","detectable","seen_at_most"]]],"rate":0.01,"family":20,"rules":6,"beyond":false,"streak":false,'
    b'"adequate":true,"p_rate":null,"rank":1}'
    b'{"confidence":0.95,"rows_needed":500,"seen_at_most":0.2,"promised":0.1,"kept":0.1,"effective_rows":2000.0,'
    b'"design_effect":1.0,"asks":1,"groups":[],"condition":"increase","checks":[["readable",true,[]],["rows",true,["n"]],['
    b'"outside_baseline",true,["baseline_version"]],["baseline",true,["baseline_version"]],["comparable",true,['
    b'"moved_share","comparable"]],["beyond",false,["change","threshold"]],["sure",false,["p_value","p_adjusted","rate"]],['
    b'"could_be_seen",true,["n","rows_needed","detectable","seen_at_most"]]],"rate":0.01,"family":20,"rules":6,'
    b'"beyond":false,"streak":true,"adequate":true,"p_rate":null,"rank":1'
)
_RAW = -15  # deflate without header and checksum, which saves six bytes


def to_bytes(value: Any) -> bytes:
    """A value that JSON can hold, as packed bytes.

    >>> len(to_bytes({"worst_range": [0.0, 0.0489], "worst_n": 113, "worst_gap": -0.0200795337560497})) < 40
    True
    """
    text = json.dumps(value, separators=(",", ":"))
    packing = zlib.compressobj(9, zlib.DEFLATED, _RAW, 9, zlib.Z_DEFAULT_STRATEGY, _COMMON)
    return _FORM + packing.compress(text.encode()) + packing.flush()


def from_bytes(data: bytes) -> Any:
    """The value that :func:`to_bytes` packed. Raises ValueError for bytes of another form."""
    if data[:1] != _FORM:
        raise ValueError(f"packed JSON begins with the byte {data[:1]!r}: it was written by another version")
    unpacking = zlib.decompressobj(_RAW, _COMMON)
    return json.loads(unpacking.decompress(data[1:]) + unpacking.flush())
