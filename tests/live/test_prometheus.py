"""What `nfslat live` gives to Prometheus, held against Prometheus' own promtool: metrics, rules, and the dashboard."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from nfslat.cli.main import main

pytestmark = [
    pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (package prometheus)"),
]
ROOT = Path(__file__).parents[2]
SERVER, CLIENT = (ROOT / "samples" / "server-threads" / f"{side}.pcap.gz" for side in ("server", "client"))
RULES = ROOT / "docs" / "monitoring" / "alerts.yml"
_HOUR = 60  # minutes


def _promtool(*words: object, text: str | None = None) -> None:
    """Nothing is wrong with it."""
    done = subprocess.run(
        ["promtool", *map(str, words)], input=text, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""


def test_metrics_are_as_they_should_be(tmp_path: Path) -> None:
    """Names, units, types and help, of one client and of several."""
    other = shutil.copy(CLIENT, tmp_path / "other.pcap.gz")
    for number, clients in enumerate(([CLIENT], [CLIENT, other])):
        file = tmp_path / f"{number}.prom"
        assert main(["live", str(SERVER), *map(str, clients), "--interval", "3", "--metrics", str(file)]) == 0
        assert "nfslat_client_srt_seconds_bucket" in file.read_text()
        _promtool("check", "metrics", text=file.read_text())


def test_the_rules_can_be_loaded() -> None:
    """They are what `rule_files` takes."""
    _promtool("check", "rules", RULES)


def test_what_the_dashboard_asks_for_can_be_answered(tmp_path: Path) -> None:
    """Each of its expressions is one of Prometheus'."""
    panels = json.loads((ROOT / "docs" / "monitoring" / "dashboard.json").read_text())["panels"]
    asked = [target["expr"].replace("$__rate_interval", "1m") for one in panels for target in one["targets"]]
    assert len(asked) > 10
    rules = [{"record": f"asked:{number}", "expr": one} for number, one in enumerate(asked)]
    file = tmp_path / "rules.yml"  # JSON is YAML
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    _promtool("check", "rules", file)


def _series(name: str, values: str, **labels: str) -> dict[str, str]:
    inside = ",".join(f'{key}="{value}"' for key, value in labels.items())
    return {"series": f"{name}{{{inside}}}", "values": values}


def _alert(name: str, severity: str, summary: str, **labels: str) -> dict[str, Any]:
    return {
        "alertname": name,
        "eval_time": f"{_HOUR}m",
        "exp_alerts": [
            {"exp_labels": {"severity": severity, **labels}, "exp_annotations": {"summary": summary}},
        ],
    }


def test_alerts_begin_when_they_should(tmp_path: Path) -> None:
    """Of the client that has it: a fault, slow READs, waits for threads, a run that is behind or has ended, packets
    that were dropped. A fault of low confidence is none, and nothing is said of the client that is well."""
    op = {"onc_rpc_procedure_name": "READ", "onc_rpc_version": "3"}
    steady = f"0+60x{_HOUR}"
    fault = _alert("NfsFault", "warning", "NFS of db1: server-threads, on the side of the server")
    fault["exp_alerts"][0]["exp_labels"] |= {
        "client": "db1",
        "cause": "server-threads",
        "layer": "server",
        "confidence": "high",
    }
    fault["exp_alerts"][0]["exp_annotations"]["description"] = "nfslat live names this cause, with confidence high."
    of_db1 = {"client": "db1"}
    tests = [
        fault,
        _alert("NfsReadsSlow", "warning", "NFS of db1: 1 % of the READs take more than 50 ms at the client", **of_db1),
        _alert(
            "NfsThreadsShort", "warning", "NFS of db1: calls wait 5 ms on average for a thread of the server", **of_db1
        ),
        _alert("NfslatBehind", "info", "nfslat live is more than a minute behind what happens", **of_db1),
        _alert("NfslatNotRunning", "info", "nfslat live has judged nothing for five minutes", **of_db1),
        _alert(
            "NfslatPacketsDropped", "info", "The kernel of a host drops packets that nfslat live captures", **of_db1
        ),
    ]
    series = [
        _series("nfslat_fault", f"1x{_HOUR}", client="db1", cause="server-threads", layer="server", confidence="high"),
        _series("nfslat_fault", f"1x{_HOUR}", client="db2", cause="net-loss", layer="network", confidence="low"),
    ]
    for client, slow, age_s, waited_s in (("db1", "0", "0x60", "0+3x60"), ("db2", "0+60", "0+60x60", "0+0.01x60")):
        labels = {"client": client}
        below = f"{slow}x{_HOUR}" if slow != "0" else f"0x{_HOUR}"
        series += [
            _series("nfslat_client_srt_seconds_bucket", below, le="0.025", **labels, **op),
            _series("nfslat_client_srt_seconds_bucket", steady, le="0.1", **labels, **op),
            _series("nfslat_client_srt_seconds_bucket", steady, le="+Inf", **labels, **op),
            _series("nfslat_thread_wait_seconds_sum", waited_s, **labels, **op),
            _series("nfslat_thread_wait_seconds_count", steady, **labels, **op),
            _series("nfslat_stretch_end_timestamp_seconds", age_s, **labels),
            _series("nfslat_lag_seconds", f"{90 if client == 'db1' else 3}x{_HOUR}", **labels),
            _series("nfslat_dropped_packets_total", f"0+{6000 if client == 'db1' else 0}x{_HOUR}", **labels),
        ]
    file = tmp_path / "test.yml"
    case = {"interval": "1m", "input_series": series, "alert_rule_test": tests}
    file.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": [case]}))
    _promtool("test", "rules", file)
