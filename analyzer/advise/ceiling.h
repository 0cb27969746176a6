// SPDX-License-Identifier: Apache-2.0
// Upper bounds of a speedup where no prediction is given: never more than the time that the change can
// remove, nor than the CPU time, the device's work and the protocol leave of a step. What a change removes,
// and nothing that may go with it, is a prediction and no bound: of each recorded time that a bound keeps it
// must be known that the change leaves it. Pure functions.
#pragma once

#include "analyzer/advise/rule.h"

namespace gpuwatch::advise {

// Of the step as other changes leave it, time that is `share` of the recorded one and that they do not
// shorten. 21 ms of a loop in Python were 15% of a step without workers, "up to 1.2x" with two of them, and
// gained 1.4 and 1.6.
double share_of_now(const RuleInput& input, double share);
// If the step lost `share` of its time, and the device's work stayed: never beyond its critical path.
double ceiling_without(const RuleInput& input, double share);
// Of the work that a step has outside its input, what surely stays where the share `removed` of the step no
// longer goes into data: what the quickest steps have (input code takes cores and caches from training),
// computed by threads that are awake.
double rest_without_input(const RuleInput& input, double removed);
// If less waiting for data takes `share` off the step, and no more than that stays of the rest.
double ceiling_without_input(const RuleInput& input, double share);
// The first where the device's work becomes that of `changed`.
double ceiling_without(const RuleInput& input, double share, const predict::StreamReplayInput& changed);

// What no setting of the loader takes out of a step: its CPU time on the cores that can be had, the training
// thread's own work, and handing over batches one at a time.
double loader_floor_ms(const RuleInput& input, const predict::LoaderReplayInput& loader, int most_workers);

// Of another setting of the loader that removes at most `share` of the step.
double loader_ceiling(const RuleInput& input, const predict::LoaderReplayInput& loader, double share,
                      int most_workers);

// With another setting of the loader, by the best end of what its replay leaves open.
double ceiling_by_replay(const RuleInput& input, const predict::LoaderSetting& setting);

// Turns the finding's prediction into an upper bound, of `at_least` so much; the order of findings still
// knows it. A finding without one is left as it is.
void give_as_bound(Finding& finding, double at_least = 0);
// Where its range is too wide to be given (kWidestPrediction). The bound is the best end of the range, which
// assumes what the replay keeps, or `ceiling_speedup` where the rule knows more that may go.
void bound_what_is_open(Finding& finding);

}  // namespace gpuwatch::advise
