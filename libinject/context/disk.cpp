// SPDX-License-Identifier: Apache-2.0
#include "libinject/context/disk.h"

#include "libinject/base/syscall.h"
#include "libinject/machine/proc_text.h"

namespace gpuwatch::context {

BusiestDisk::Disk* BusiestDisk::find(uint64_t number) noexcept {
  for (auto& disk : disks_) {
    if (disk.number == number || disk.number == 0) return &disk;
  }
  return nullptr;
}

// A line: major minor name reads merged sectors ms writes merged sectors ms in_flight busy_ms ...
void BusiestDisk::read(const machine::Roots& roots) noexcept {
  static char text[8192];  // one sample is taken at a time, maybe on a small stack
  if (base::read_file(machine::below(roots.proc, "diskstats").c_str(), text, sizeof text) <= 0) return;
  uint64_t most_busy_ms = 0;
  uint64_t sectors_of_most = 0;
  for (const char* line = text; line && *line; line = std::strchr(line, '\n')) {
    if (*line == '\n' && *++line == 0) break;
    const uint64_t major = machine::take_number(line);
    const uint64_t number = major << 32 | machine::take_number(line);
    while (*line == ' ') ++line;
    machine::skip_words(line, 3);  // name, reads, merged
    const uint64_t sectors = machine::take_number(line);
    while (*line == ' ') ++line;
    machine::skip_words(line, 6);
    const uint64_t busy_ms = machine::take_number(line);
    if (busy_ms == 0) continue;  // never used, or an invalid line
    Disk* disk = find(number);
    if (!disk) continue;
    const bool is_known = disk->number != 0;
    const uint64_t busy_since = is_known && busy_ms > disk->busy_ms ? busy_ms - disk->busy_ms : 0;
    if (busy_since > most_busy_ms) {
      most_busy_ms = busy_since;
      sectors_of_most = sectors > disk->sectors_read ? sectors - disk->sectors_read : 0;
    }
    *disk = {number, busy_ms, sectors};
  }
  busy_ns_ += most_busy_ms * 1000000;
  read_bytes_ += sectors_of_most * 512;
}

}  // namespace gpuwatch::context
