// SPDX-License-Identifier: Apache-2.0
// `gpuwatch try`: runs a job as it is for a while, then with the first finding's setting applied through the
// library, then with the next one on top of what gained, and compares what was predicted with what was
// measured. What the trials write is dropped (overlay.h), unless asked otherwise. Throws io::UserError.
#pragma once

#include <string>
#include <vector>

namespace gpuwatch::cli {

struct TryOptions {
  std::vector<std::string> command;
  std::string out;   // folder for the trials' traces and output; "" for ./gpuwatch-try-<script>-<date>-<pid>
  size_t steps = 0;  // of a trial; 0: until its report is stable
  double seconds = 120;  // a trial takes at most
  size_t most_changes = 4;
  bool is_in_place = false;  // the trials' writes stay
  bool is_sure = false;      // --yes: no question before trials in place
  bool json = false;         // schema gpuwatch.try.v1 on stdout instead of the table
};

// 0 where the job as it is was measured, whatever came after; 1 where it was not; 130 after Ctrl-C.
int try_settings(const TryOptions& options);

}  // namespace gpuwatch::cli
