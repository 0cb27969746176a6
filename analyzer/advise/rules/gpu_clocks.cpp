// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "analyzer/advise/device_samples.h"
#include "analyzer/advise/machine.h"

namespace gpuwatch::advise {

extern const Rule kGpuClocks;

namespace {

using attribute::Category;

constexpr double kLeastHeld = 0.50;

constexpr Threshold kThresholds[] = {
    {"GPU samples in which one reason holds the SM clock down", kLeastHeld, "of the samples",
     "a heat or power peak of a second is normal, a state that lasts is not"},
    kEnoughDeviceSamples,
    kLeastGain,
};

// Bits of nvmlClocksEventReasons (NVML's reference manual). Idle, and what belongs to a display, hold no
// training down.
constexpr uint64_t kIdle = 0x1, kSoftwarePowerCap = 0x4;

// The first one that most samples have counts: the hardware's reasons set several bits at once, and a GPU
// that is cooled or powered badly is not helped by a setting.
struct Reason {
  uint64_t bits;
  const char* words;
  const char *setting, *value;
  const char* fix;
};
constexpr Reason kReasons[] = {
    {0x80, "the power supply brakes it", "power supply", "checked",
     "Check the GPU's power cables and the power supply: the board signals a shortage (power brake)"},
    {0x40, "the GPU is too hot", "cooling", "better",
     "Cool the GPU: check fans, air flow and the room's temperature; the hardware slows it down to protect "
     "it"},
    {0x20, "the GPU is too hot", "cooling", "better",
     "Cool the GPU: check fans, air flow and the room's temperature; the driver slows it down"},
    {0x8, "the hardware slows it down", "GPU hardware", "checked",
     "Check the GPU's power and cooling (nvidia-smi -q -d PERFORMANCE): the hardware slows it down"},
    {0x2, "it was set to that", "application clocks", "reset",
     "Reset the clocks that somebody set: nvidia-smi -rac, and nvidia-smi -rgc"},
    {0x10, "a slower GPU of its sync boost group sets the clock", "sync boost", "off",
     "Take the GPU out of its sync boost group"},
    {kSoftwarePowerCap, "its power limit is below the default", "power limit", "default", ""},
};

struct HeldDown {
  const Reason* reason = nullptr;
  size_t samples = 0;     // in which it held
  double lost_clock = 0;  // mean over all busy samples: 1 - clock / maximum where it held
  const model::DeviceSample* lowest = nullptr;
};

bool holds(const Reason& reason, const model::DeviceSample& sample) {
  if (!(sample.throttle_reasons & reason.bits) || sample.sm_clock_mhz >= sample.sm_clock_max_mhz)
    return false;
  // At the limit it was built for a GPU under load is always held by its power: no setting changes that.
  return reason.bits != kSoftwarePowerCap || sample.power_limit_mw < sample.power_limit_default_mw;
}

HeldDown held_by(const Reason& reason, const DeviceSamples& busy) {
  HeldDown held{&reason};
  for (const model::DeviceSample* sample : busy) {
    if (!holds(reason, *sample)) continue;
    ++held.samples;
    held.lost_clock += 1 - double(sample->sm_clock_mhz) / double(sample->sm_clock_max_mhz);
    if (!held.lowest || sample->sm_clock_mhz < held.lowest->sm_clock_mhz) held.lowest = sample;
  }
  held.lost_clock /= double(busy.size());
  return held;
}

void name_fix(Finding& finding, const HeldDown& held) {
  const model::DeviceSample& sample = *held.lowest;
  finding.fix.change = NamedChange{held.reason->setting, held.reason->value};
  finding.fix.summary = held.reason->fix;
  if (held.reason->bits != kSoftwarePowerCap) return;
  const std::string watts = fmt::format("{:.0f}", sample.power_limit_default_mw / 1e3);
  finding.fix.change = NamedChange{held.reason->setting, watts + " W"};
  finding.fix.summary = fmt::format("Restore the default power limit: nvidia-smi -pl {} (now {:.0f} W)",
                                    watts, sample.power_limit_mw / 1e3);
}

std::optional<Finding> evaluate(const RuleInput& input) {
  DeviceSamples busy = samples_in_steps(input);
  std::erase_if(busy, [](const model::DeviceSample* sample) {
    return (sample->throttle_reasons & kIdle) || sample->sm_clock_mhz == 0 || sample->sm_clock_max_mhz == 0;
  });
  if (busy.size() < kLeastDeviceSamples) return std::nullopt;
  const auto lasts = [&](const Reason& reason) {
    return double(held_by(reason, busy).samples) >= kLeastHeld * double(busy.size());
  };
  const Reason* reason = std::find_if(std::begin(kReasons), std::end(kReasons), lasts);
  if (reason == std::end(kReasons)) return std::nullopt;
  const HeldDown held = held_by(*reason, busy);
  const double compute = input.rank.share(Category::Compute), lost = compute * held.lost_clock;
  if (lost < kLeastLost) return std::nullopt;

  Finding finding = make_finding(kGpuClocks, input, lost);
  finding.title = fmt::format("GPU clock: {} of {} MHz, because {}", held.lowest->sm_clock_mhz,
                              held.lowest->sm_clock_max_mhz, reason->words);
  finding.evidence = {
      {"GPU samples with this reason", 100 * double(held.samples) / double(busy.size()), "% of the samples"},
      {"SM clock below its maximum, mean", 100 * held.lost_clock, "%"},
      {"GPU compute", 100 * compute, "% of the step"},
      {"temperature", double(held.lowest->temperature_c), "degrees Celsius"},
      {"power", held.lowest->power_mw / 1e3, "W"}};
  name_fix(finding, held);
  finding.ceiling_speedup = 1 / (1 - lost);
  return finding;
}

}  // namespace

const Rule kGpuClocks{
    "gpu-clocks",
    "The GPU runs below its maximum SM clock: it is too hot, its power is limited below the default, or "
    "somebody set its clocks.",
    "NVML's reasons for the clock in at least half of the samples while the GPU is in use, and a clock "
    "below the maximum. A low clock without a reason is that of an idle GPU. A GPU that reaches its default "
    "power limit is no finding. Upper bound: compute gets faster as the clock does, which kernels that wait "
    "for memory do not.",
    "Depends on the reason: cooling, power supply, `nvidia-smi -pl` for the power limit, `nvidia-smi -rac` "
    "and `-rgc` for clocks that were set.",
    kThresholds,
    evaluate,
    {attribute::Category::Compute}};

}  // namespace gpuwatch::advise
