#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds by trial what each program of tests/abroad should change, and writes truth.json. gpuwatch has no part in it.

    tests/abroad/truth.py                    programs that truth.json lacks or has only provisionally
    tests/abroad/truth.py --missing          only those that it lacks
    tests/abroad/truth.py --only NAME ...    these, again
    tests/abroad/truth.py --smoke            each program once, as it is; writes nothing

Each program runs as it is, with each of its fixes in turn, and as it is again, and that three times: a busy minute meets all of them.
Once is enough where no fix is near the line between right and wrong, and the machine was as fast at the end as at the beginning. The
time of a sample by the program's own clock counts, in the median. Right are the fixes within 3% of the best one; where none gains 3%,
the program is healthy. An entry is provisional where other programs took so much of the CPUs that fixes may have changed places, or
where one or two rounds met so different speeds of the machine.
"""

import argparse
import json
import statistics
import sys
import time

import abroad_case
from abroad_case import GAIN, HERE, ROOT
from cases import CASES

sys.path.insert(0, str(ROOT / "tests"))
from disturbance import Disturbance  # noqa: E402

TRUTH = HERE / "truth.json"
ROUNDS = 3
QUIET = 0.05  # of one CPU, by programs that are none of ours and by the machine's host
NEAR = 0.15  # no second look is needed where everything else is so much slower than the best
STEADY = 0.10  # and where the program as it is took as long at the end of the round: machines change their speed by up to 1.9 times
AS_IT_IS = abroad_case.Fix((), ())
NOW = AS_IT_IS.name  # beside those of its fixes


def sample_us(own):
    """To six digits: a sample may be an element of an array, of which a GPU reads billions a second."""
    return float(f"{1e6 / own['samples_per_s']:.6g}")


def medians_of(times):
    return {name: statistics.median(values) for name, values in times.items()}


def drift(times):
    """By how much the program as it is differed from itself: machines change their speed."""
    return max(times[NOW]) / min(times[NOW]) - 1


def lead(case, times):
    """By how much the best is faster than anything else, be that another cause's fix or the program as it is."""
    medians, causes = medians_of(times), {NOW: (), **{fix.name: fix.findings for fix in case.fixes}}
    best = min(medians, key=medians.get)
    rivals = [value for name, value in medians.items() if causes[name] != causes[best]]
    return min(rivals, default=medians[best] * 2) / medians[best] - 1


def is_clear(case, times):
    return drift(times) <= STEADY and lead(case, times) > NEAR


def is_open(case, times):
    """Fewer rounds than there should be, and the machine changed its speed by more than the best leads."""
    return len(times[NOW]) < 2 * ROUNDS and lead(case, times) <= drift(times)


def measured(case, rounds):
    """Microseconds a sample: {name of the fix: one of each round}."""
    times = {NOW: [], **{fix.name: [] for fix in case.fixes}}
    for _ in range(rounds):
        for fix in [AS_IT_IS, *case.fixes, AS_IT_IS]:
            times[fix.name].append(sample_us(abroad_case.run(case, fix.words, fix.env)))
        if is_clear(case, times):
            break
    return times


def is_settled(found, case):
    """Measured on a quiet machine, and with the fixes that the case has now."""
    return not found["provisional"] and set(found["sample_us"]) == {NOW, *(fix.name for fix in case.fixes)}


def judged(case, times, taken):
    medians = medians_of(times)
    best = min(medians.values())
    is_healthy = best > medians[NOW] * (1 - GAIN)
    right = [] if is_healthy else [fix for fix in case.fixes if medians[fix.name] <= best * (1 + GAIN)]
    spread = max((max(values) - min(values)) / statistics.median(values) for values in times.values())
    return {
        "healthy": is_healthy, "right": [fix.name for fix in right], "findings": sorted({finding for fix in right for finding in fix.findings}),
        "gain": round(medians[NOW] / best, 3), "spread": round(spread, 3),
        "others": round(taken, 3), "provisional": taken > QUIET or is_open(case, times), "sample_us": medians, "runs": times,
    }  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--missing", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    options = parser.parse_args()
    known = json.loads(TRUTH.read_text()) if TRUTH.exists() else {}
    failed = 0
    for case in CASES:
        is_known = case.name in known and (options.missing or is_settled(known[case.name], case))
        if case.name not in options.only if options.only else is_known and not options.smoke:
            continue
        began, disturbance = time.monotonic(), Disturbance()
        try:
            if options.smoke:
                print(f"ok   {case.name}: {abroad_case.run(case)} {time.monotonic() - began:.0f} s", flush=True)
                continue
            times = measured(case, options.rounds)
        except abroad_case.FAILURES as error:
            failed += 1
            print(f"FAIL {case.name}: {error}", flush=True)
            continue
        taken = disturbance.so_far()
        known[case.name] = found = judged(case, times, taken.foreign + taken.stolen)
        TRUTH.write_text(json.dumps(known, indent=1) + "\n")
        quiet = f"others took {100 * found['others']:.0f}% of a CPU{', provisional' if found['provisional'] else ''}"
        answer = "healthy" if found["healthy"] else ", ".join(found["right"])
        print(f"ok   {case.name}: {answer} ({found['gain']:.2f}x, spread {100 * found['spread']:.0f}%, {quiet}, {time.monotonic() - began:.0f} s) {found['sample_us']}", flush=True)
    return failed > 0


if __name__ == "__main__":
    raise SystemExit(main())
