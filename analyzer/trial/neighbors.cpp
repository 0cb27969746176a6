// SPDX-License-Identifier: Apache-2.0
#include "analyzer/trial/neighbors.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>

namespace gpuwatch::trial {
namespace {

double cpu_s(int who) {
  struct rusage usage = {};
  getrusage(who, &usage);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + double(time.tv_usec) / 1e6; };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// proc(5): user, nice, system, idle, iowait, irq, softirq, steal, in ticks. 0 where there is no such file.
double busy_s() {
  std::ifstream file("/proc/stat");
  std::string name;
  file >> name;
  double ticks = 0, busy = 0;
  for (int field = 0; field < 8 && file >> ticks; ++field)
    if (field != 3 && field != 4) busy += ticks;
  return busy / double(sysconf(_SC_CLK_TCK));
}

}  // namespace

Neighbors::Neighbors() : start_(std::chrono::steady_clock::now()), before_(cpu_time()) {}

Neighbors::CpuTime Neighbors::cpu_time() {
  return {busy_s(), cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN)};
}

double Neighbors::cores() const {
  const CpuTime now = cpu_time();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  const double others_s = (now.machine_s - before_.machine_s) - (now.ours_s - before_.ours_s);
  return seconds > 0 ? std::max(0.0, others_s / seconds) : 0;
}

}  // namespace gpuwatch::trial
