// SPDX-License-Identifier: Apache-2.0
#include "analyzer/cli/doctor.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <vector>

#include "analyzer/cli/machine.h"
#include "analyzer/cli/paths.h"
#include "analyzer/io/printable.h"
#include "analyzer/trial/overlay.h"

namespace gpuwatch::cli {
namespace {

namespace fs = std::filesystem;

std::string line(const char* label, const std::string& words) {
  return fmt::format("{:<10}{}\n", label, words);
}

std::string read_word(const std::string& path) {
  std::ifstream file(path);
  std::string word;
  std::getline(file, word);
  return word;
}

std::string python_words() {
  // One fixed command, nothing of it from outside.
  FILE* output = popen(
      "python3 -c 'import sys, importlib.util as u; print(\"python\", sys.version.split()[0]);"
      "print(*[m for m in (\"torch\", \"tensorflow\", \"jax\") if u.find_spec(m)] or [\"no torch, tensorflow "
      "or jax\"])' 2>/dev/null",
      "r");
  if (!output) return "not found: a training script cannot run here";
  std::string text;
  char buffer[256];
  while (text.size() < 1024 && std::fgets(buffer, sizeof buffer, output))
    text += (text.empty() ? "" : ", ") + std::string(buffer, strcspn(buffer, "\n"));
  pclose(output);
  return text.empty() ? "not on the PATH: gpuwatch works with the Python that your job uses"
                      : io::printable(text);
}

// Loaded and dropped again: what the dynamic linker finds is what a job would get.
std::string found_library(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (void* handle = dlopen(name, RTLD_LAZY | RTLD_LOCAL)) {
      dlclose(handle);
      return name;
    }
  }
  return "";
}

std::string library_words(std::initializer_list<const char*> names, const char* without) {
  std::string name = found_library(names);
  return name.empty() ? std::string("not found by the dynamic linker: ") + without : name;
}

std::string cupti_words() {
  std::string name = found_library({"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8", "libcupti.so"});
  std::error_code error;
  for (const char* path : {"/usr/local/cuda/extras/CUPTI/lib64", "/usr/local/cuda/lib64"})
    if (name.empty() && fs::exists(fs::path(path) / "libcupti.so", error))
      name = std::string(path) + "/libcupti.so";
  return name.empty() ? "not installed; PyTorch's own copy is used where there is one, else GPU activity "
                        "is not recorded"
                      : name;
}

std::string device_words() {
  size_t gpus = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator("/dev", error)) {
    std::string name = entry.path().filename().string();
    gpus +=
        name.starts_with("nvidia") && name.size() > 6 && std::isdigit(static_cast<unsigned char>(name[6]));
  }
  if (gpus == 0) return "no NVIDIA GPU: jobs run on the CPU and are analyzed as CPU jobs";
  bool usable = access("/dev/nvidiactl", R_OK | W_OK) == 0;
  return fmt::format(
      "{} GPU{}{}", gpus, gpus == 1 ? "" : "s",
      usable ? "" : ", but this user may not open /dev/nvidiactl; ask for access to the GPU devices");
}

std::string clock_words() {
  std::ifstream cpuinfo("/proc/cpuinfo");
  std::string text;
  bool invariant = false;
  while (std::getline(cpuinfo, text))
    if (text.starts_with("flags")) {
      invariant =
          text.find(" nonstop_tsc") != std::string::npos && text.find(" constant_tsc") != std::string::npos;
      break;
    }
  std::string source = read_word("/sys/devices/system/clocksource/clocksource0/current_clocksource");
  return fmt::format("{} (kernel uses {})",
                     invariant ? "invariant TSC: a timestamp costs a few nanoseconds"
                               : "no invariant TSC: CLOCK_MONOTONIC is used, which costs a little more",
                     source.empty() ? "an unknown one" : io::printable(source));
}

std::string shared_memory_words() {
  struct statvfs status;
  if (statvfs("/dev/shm", &status) != 0)
    return "/dev/shm is missing: DataLoader workers cannot send batches to the trainer";
  double mib = double(status.f_blocks) * double(status.f_frsize) / (1 << 20);
  return fmt::format("/dev/shm {:.0f} MiB{}", mib,
                     mib < 512 ? ": small for DataLoader workers, see docker --shm-size" : "");
}

std::string run_delay_words() {
  return access("/proc/self/schedstat", R_OK) == 0
             ? "CPU contention can be measured (/proc/self/schedstat)"
             : "no /proc/self/schedstat: waiting for a CPU core counts as computing";
}

std::string trial_words() {
  const auto why_not = trial::cannot_overlay();
  return why_not ? fmt::format("gpuwatch try needs --in-place: {}", *why_not)
                 : "what a job writes under gpuwatch try can be dropped (overlays)";
}

}  // namespace

std::string doctor() {
  std::string path = find_library();
  std::string out;
  out += line("library",
              path.empty() ? "libgpuwatch.so not found next to this program; build or install all of gpuwatch"
                           : path);
  out += line("python", python_words());
  out += line("driver", library_words({"libcuda.so.1"}, "no CUDA driver, so GPU activity is not recorded"));
  out += line("cudart",
              library_words({"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0", "libcudart.so"},
                            "programs bring their own copy, as PyTorch does"));
  out += line("cupti", cupti_words());
  out += line("nccl", library_words({"libnccl.so.2"},
                                    "only jobs with several GPUs need it, and PyTorch brings its own copy"));
  out += line("gpu", device_words());
  out += line("nvml", nvml_words());
  out += line("clock", clock_words());
  out += line("cpu", cpu_quota_words(""));
  out += line("sched", run_delay_words());
  out += line("pressure", pressure_words(""));
  out += line("memory", memory_limit_words(""));
  out += line("shm", shared_memory_words());
  out += line("storage", storage_words(""));
  out += line("workers", peek_words(""));
  out += line("trials", trial_words());
  return out;
}

}  // namespace gpuwatch::cli
