// SPDX-License-Identifier: Apache-2.0
// A busy neighbour changes what is said about the machine, not what is said about the job: the training
// thread of jobs of four kinds loses its core here and there, as its counter tells, and the report names the
// same cause as before.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "analyzer/advise/diagnose.h"
#include "analyzer/model/steps.h"

namespace gpuwatch::advise {
namespace {

using attribute::Category;
using attribute::RankAttribution;
using model::Ns;
using trace::OpClass;

constexpr Ns kUs = 1'000, kMs = 1'000'000;

struct Action {
  OpClass op_class = OpClass::Launch;
  Ns own = 10 * kUs;  // code before the call
  Ns cost = 5 * kUs;
  Ns device = 0;  // what it launches
};

struct Neighbor {
  double slices_a_step = 0;
  Ns shortest = 1 * kMs, longest = 6 * kMs;
  uint32_t seed = 1;
};

std::vector<Action> launches(int count, Ns own, Ns device) {
  return std::vector<Action>(size_t(count), Action{OpClass::Launch, own, 5 * kUs, device});
}

// Plays the steps on one thread and one stream; a worker makes a batch in `batch_ns`.
class Program {
 public:
  Program(std::vector<Action> step, const Neighbor& neighbor, Ns batch_ns = 0)
      : step_(std::move(step)), neighbor_(neighbor), batch_ns_(batch_ns), random_(neighbor.seed) {
    set_up();
    for (size_t i = 0; i < kSteps; ++i) play_step(i);
    finish();
  }

  model::Run run;
  Ns delay = 0;

 private:
  static constexpr size_t kSteps = 120;
  static constexpr int kCpus = 8;

  void set_up() {
    run.operations = {{"cudaLaunchKernel", OpClass::Launch},
                      {"cudaStreamSynchronize", OpClass::Sync},
                      {"next", OpClass::LoaderNext},
                      {"step", OpClass::OptimizerStep}};
    model::Process& process = run.processes.emplace_back();
    process.pid = 1;
    process.host = "node1";
    process.script = "train.py";
    process.cpu_count = kCpus;
    process.start = now_;
    process.training_thread = 0;
    process.facts = {{"python", "3.11.2"}, {"torch", "2.13.0"}};
    process.sources["cupti"] = process.sources["cuda"] = {trace::SourceState::On, "on", ""};
    process.threads.resize(1);
    process.streams.resize(1);
    process.devices.resize(1);
    process.devices[0].multiprocessors = 100;
    for (size_t i = 0; i < step_.size(); ++i)
      run.kernels.push_back({"kernel" + std::to_string(i), {4000, 1, 1}, {1024, 1, 1}, false});
    if (batch_ns_ == 0) return;
    model::Loader loader;
    loader.id = 1;
    loader.class_name = "DataLoader";
    loader.num_workers = 1;
    loader.prefetch_factor = 2;
    loader.batch_size = 32;
    loader.thread = 0;
    process.loaders = {loader};
    process.epochs.resize(1);
    process.epochs[0].workers.resize(1);
  }

  void lose_core() {
    const double chance = neighbor_.slices_a_step / double(step_.size());
    if (std::uniform_real_distribution<>(0, 1)(random_) >= chance) return;
    const Ns slice = std::uniform_int_distribution<Ns>(neighbor_.shortest, neighbor_.longest)(random_);
    now_ += slice;
    delay_of_step_ += slice;
  }

  void take_batch(uint32_t index) {
    model::Batch batch;
    batch.index = index;
    batch.worker = 0;
    batch.sent = made_;
    batch.fetch = {made_, made_ + batch_ns_};
    batch.fetch_cpu_ns = batch_ns_;
    batch.next = {now_, std::max(now_ + 20 * kUs, batch.fetch.end)};
    made_ = batch.fetch.end;
    batch.received = now_ = batch.next.end;
    run.processes[0].epochs[0].batches.push_back(batch);
  }

  void play(const Action& action, uint32_t kernel, uint32_t index) {
    model::Process& process = run.processes[0];
    now_ += action.own;
    own_of_step_ += action.own;
    lose_core();
    const Ns begin = now_;
    if (action.op_class == OpClass::LoaderNext && batch_ns_ > 0) take_batch(index);
    now_ = std::max(now_, begin + action.cost);
    if (action.op_class == OpClass::Sync) now_ = std::max(now_, device_end_ + 10 * kUs);
    if (action.device > 0) {
      model::DeviceOp op{};
      op.begin = std::max(now_, device_end_);
      op.end = device_end_ = op.begin + action.device;
      op.kind = trace::RecordKind::Kernel;
      op.kernel = kernel;
      op.launch_thread = 0;
      op.launch_call = uint32_t(process.threads[0].calls.size());
      process.devices[0].operations.push_back(op);
    }
    add_call(action.op_class, begin, now_, action.op_class == OpClass::LoaderNext ? 1 : 0, index);
  }

  void add_call(OpClass op_class, Ns begin, Ns end, uint32_t object, uint32_t argument) {
    const auto operation = std::ranges::find(run.operations, op_class, &model::Operation::op_class);
    run.processes[0].threads[0].calls.push_back({begin, end, object, argument, model::kNone,
                                                 uint16_t(operation - run.operations.begin()), op_class, 0});
  }

  void play_step(size_t step) {
    delay_of_step_ = own_of_step_ = 0;
    for (uint32_t i = 0; i < step_.size(); ++i) play(step_[i], i, uint32_t(step));
    model::Thread& thread = run.processes[0].threads[0];
    add_call(OpClass::OptimizerStep, now_, now_ + 20 * kUs, 7, 0);
    now_ += 20 * kUs;
    thread.calls.back().detail = uint32_t(thread.cpu_details.size());
    thread.cpu_details.emplace_back(uint64_t(own_of_step_), uint64_t(delay_of_step_), 0, 0);
    delay += delay_of_step_;
    model::MachineSample sample{};
    sample.time = now_;
    sample.run_delay_ns = delay;
    sample.cpu_ns = now_;
    sample.cpu_total_ns = kCpus * now_;
    const int busy = neighbor_.slices_a_step > 0 ? 3 : 1;  // of the CPUs: the job, and the neighbor's two
    sample.cpu_idle_ns = (kCpus - busy) * now_;
    run.processes[0].machine_samples.push_back(sample);
  }

  void finish() {
    model::Process& process = run.processes[0];
    process.last_seen = process.alive_until = std::max(now_, device_end_);
    process.end_state = model::EndState::kExited;
  }

  std::vector<Action> step_;
  Neighbor neighbor_;
  Ns batch_ns_, now_ = 1000 * kMs, device_end_ = 0, made_ = 1000 * kMs;
  Ns delay_of_step_ = 0, own_of_step_ = 0;
  std::mt19937 random_;
};

bool is_about_the_machine(const Finding& finding) {
  return finding.id.starts_with("cpu-") || finding.id.starts_with("memory-") || finding.id == "numa-affinity";
}

struct Said {
  std::string verdict, first;  // of the job: "" where nothing is to be changed
  std::string sentence;
  bool has_contention = false;
  double script = 0, sched = 0;
};

Said said_of(const Program& program) {
  const auto ranks = attribute::attribute(program.run);
  const Diagnosis diagnosis = diagnose(program.run, ranks);
  Said said{diagnosis.verdict.id, "", diagnosis.verdict.sentence};
  for (const Finding& finding : diagnosis.findings) {
    said.has_contention |= finding.id == "cpu-contention";
    if (said.first.empty() && finding.is_complaint() && !is_about_the_machine(finding))
      said.first = finding.id;
  }
  said.script = ranks.at(0).share(Category::HostCompute);
  said.sched = ranks.at(0).share(Category::Sched);
  return said;
}

struct Job {
  const char* name;
  std::vector<Action> step;
  Ns batch_ns;
  const char* verdict;
  const char* first;
};

std::vector<Action> with(std::vector<Action> first, const std::vector<Action>& then) {
  first.insert(first.end(), then.begin(), then.end());
  return first;
}

const Action kSync{OpClass::Sync, 10 * kUs, 5 * kUs, 0};
const Action kNext{OpClass::LoaderNext, 10 * kUs, 20 * kUs, 0};

std::vector<Job> jobs() {
  return {
      {"healthy", with({kNext}, with(launches(30, 15 * kUs, 900 * kUs), {kSync})), 0, "healthy", ""},
      {"host work",
       with({kNext, Action{OpClass::Launch, 9 * kMs, 5 * kUs, 100 * kUs}},
            with(launches(30, 15 * kUs, 300 * kUs), {kSync})),
       0, "host-bound", "host-work"},
      {"launch-bound", with({kNext}, with(launches(600, 20 * kUs, 4 * kUs), {kSync})), 0, "host-bound",
       "launch-bound"},
      {"input-bound", with({kNext}, with(launches(30, 15 * kUs, 300 * kUs), {kSync})), 40 * kMs,
       "input-bound", "dataloader-workers"},
  };
}

TEST(BusyNeighbor, QuietJobsAreNamedAsTheyAre) {
  for (const Job& job : jobs()) {
    SCOPED_TRACE(job.name);
    const Said said = said_of(Program(job.step, {}, job.batch_ns));
    EXPECT_EQ(said.verdict, job.verdict) << said.sentence;
    EXPECT_EQ(said.first, job.first);
    EXPECT_FALSE(said.has_contention);
  }
}

TEST(BusyNeighbor, ChangesNothingThatIsSaidOfTheJob) {
  for (const Job& job : jobs()) {
    const Said quiet = said_of(Program(job.step, {}, job.batch_ns));
    for (uint32_t seed = 1; seed <= 8; ++seed) {
      const Neighbor neighbor{.slices_a_step = 0.5 * seed, .seed = seed};
      const Said busy = said_of(Program(job.step, neighbor, job.batch_ns));
      SCOPED_TRACE(std::string(job.name) + ", " + std::to_string(seed));
      EXPECT_EQ(busy.verdict, quiet.verdict) << busy.sentence;
      EXPECT_EQ(busy.first, quiet.first);
      EXPECT_LE(busy.script, quiet.script + 0.02) << "losing the core is no work of the script";
    }
  }
}

TEST(BusyNeighbor, IsNamedWhereItTakesTheCore) {
  const Job launch_bound = jobs()[2];
  const Program program(launch_bound.step, {.slices_a_step = 2}, 0);
  const Said busy = said_of(program);
  EXPECT_TRUE(busy.has_contention);
  EXPECT_GT(busy.sched, 0.2);
}

}  // namespace
}  // namespace gpuwatch::advise
