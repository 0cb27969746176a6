// SPDX-License-Identifier: Apache-2.0
// Where this process's trace goes: the run's directory (shared by all ranks, workers and helpers of a run)
// and the file's name in it. Cold; called once when recording starts. Not signal safe.
#pragma once

#include "libinject/base/text.h"

namespace gpuwatch::record {

struct RunPlace {
  base::Text<256> run_id;
  base::Text<256> script;  // "train.py"
  base::Text<64> host;
  base::Path directory;
  bool is_first = false;  // this process made the directory
};

// What the job is called, from the arguments that the program was started with: in the library's constructor,
// before a job writes a title over them.
void note_script(int argc, char** argv) noexcept;

// Finds or makes the run's directory. False if none of the places can be written; *error is errno
// of the first.
bool find_run_place(RunPlace* place, int* error) noexcept;

// `<host>.<rank>.<pid>.<start>.gwt`; attempt > 0 adds `-<attempt>` to the start.
void file_path(const RunPlace& place, int rank, uint64_t attempt, base::Path* path) noexcept;

// Root in a container that writes into a user's mounted directory leaves files that the user cannot delete:
// `path` becomes its owner's who has `directory`. Nothing for others than root.
void hand_over(const char* path, const char* directory) noexcept;

// An environment variable as a number, or -1.
int environment_number(const char* name) noexcept;

}  // namespace gpuwatch::record
