// SPDX-License-Identifier: Apache-2.0
// The libnccl stand-in, for the ranks of one process: communicators, groups, collectives and point to point,
// as kernels of the names that the real library launches. All ranks of a collective end together, a
// configured time after the last one arrived (latency plus the message's bytes over nccl_gbs); each starts
// when its own stream is ready. The bytes move when the last rank has called (message.h), and not at all
// while a graph is captured. A rank that is alone gets its kernels too. Thread-safe.
//
// Ranks meet in a Clique, which they find by the unique id; all that they have to agree on
// goes through Clique::join().
#include <nccl.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "callback_ids.h"
#include "core/api_call.h"
#include "core/config.h"
#include "core/context.h"
#include "core/graph.h"
#include "core/truth_log.h"
#include "nccl/message.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))
// Every function has a second name, for tools that put themselves in front of the first.
#define GWSIM_ALSO_AS_PNCCL(name) \
  extern "C" __attribute__((visibility("default"), alias("nccl" #name))) decltype(nccl##name) pnccl##name

using namespace gpuwatch::sim;

namespace {

// Ranks that belong together.
struct Clique {
  explicit Clique(int rank_count) : ranks(rank_count) {}

  // The meeting that a rank's `number`-th operation under `key` takes part in, at its `place` of `parties`.
  // The last one to join moves the messages.
  std::shared_ptr<Rendezvous> join(const std::string& key, uint64_t number, size_t place, size_t parties,
                                   Ns duration_ns, const Message* message) {
    std::lock_guard lock(mutex);
    Open& open = meetings[{key, number}];
    if (!open.meeting) {
      open.meeting = std::make_shared<Rendezvous>();
      open.meeting->missing = static_cast<int>(parties);
      open.meeting->duration_ns = duration_ns;
      open.messages.resize(parties);
    }
    const auto meeting = open.meeting;
    open.moves = open.moves && message;
    if (message) open.messages[place] = *message;
    if (++open.joined == parties) {
      if (open.moves) exchange(open.messages);
      meetings.erase({key, number});
    }
    return meeting;
  }

  struct Open {
    std::shared_ptr<Rendezvous> meeting;
    std::vector<Message> messages;
    size_t joined = 0;
    bool moves = true;
  };
  const int ranks;
  std::mutex mutex;
  std::map<std::pair<std::string, uint64_t>, Open> meetings;
};

std::mutex g_cliques_mutex;

std::map<std::string, std::shared_ptr<Clique>>& cliques() {
  static auto* instance = new std::map<std::string, std::shared_ptr<Clique>>;
  return *instance;
}

// An id names the process that made it: only that one can serve it.
std::string new_id() {
  static std::atomic<uint64_t> next{1};
  return "gwsim " + std::to_string(getpid()) + " " + std::to_string(next.fetch_add(1));
}

bool is_own_id(const std::string& id) {
  return id.rfind("gwsim " + std::to_string(getpid()) + " ", 0) == 0;
}

const char* name_of(ncclDataType_t type) {
  static const char* const kNames[] = {"i8",  "u8",  "i32", "u32",  "i64",    "u64",
                                       "f16", "f32", "f64", "bf16", "f8e4m3", "f8e5m2"};
  return type >= 0 && type < ncclNumTypes ? kNames[type] : "u8";
}

const char* name_of(ncclRedOp_t op) {
  static const char* const kNames[] = {"Sum", "Prod", "MinMax", "MinMax", "SumPostDiv"};
  return op >= 0 && op < ncclNumOps ? kNames[op] : "PreMulSum";
}

const Kernel* kernel_named(const std::string& what) {
  const std::string name = "ncclDevKernel_" + what;
  return Kernel::find_or_add(
      ("_Z" + std::to_string(name.size()) + name + "24ncclDevKernelArgsStorageILm4096EE").c_str());
}

// A host call of the program, for the ground truth; CUPTI sees only the launches inside.
class NcclCall {
 public:
  explicit NcclCall(const char* name) : name_(name), begin_ns_(now_ns()) {}
  ~NcclCall() { truth_host(name_, 0, begin_ns_, 0); }

 private:
  const char* name_;
  Ns begin_ns_;
};

}  // namespace

struct ncclComm {
  std::shared_ptr<Clique> clique;
  int rank;
  int device;
  uint64_t collectives = 0;
  std::map<int, uint64_t> sends;
  std::map<int, uint64_t> receives;
};

namespace {

struct Queued {
  ncclComm_t comm;
  Stream* stream;
  const Kernel* kernel;
  bool point_to_point;
  std::vector<std::shared_ptr<Rendezvous>> meets;
};

thread_local int t_group_depth = 0;
thread_local std::vector<Queued> t_group;

Stream* resolve(const ncclComm& comm, cudaStream_t handle) {
  Timeline& timeline = Timeline::instance();
  const auto device = static_cast<uint32_t>(comm.device);
  if (handle == nullptr || handle == cudaStreamLegacy) return timeline.legacy_stream(device);
  if (handle == cudaStreamPerThread) return timeline.per_thread_stream(device);
  auto* stream = reinterpret_cast<Stream*>(handle);
  return timeline.is_stream(stream) ? stream : nullptr;
}

Ns duration_ns(size_t bytes) {
  return config().nccl_latency_ns + static_cast<Ns>(static_cast<double>(bytes) / config().nccl_bytes_per_ns);
}

void launch(const Queued& queued) {
  static constexpr ApiInfo kLaunch{ApiDomain::kDriver, kDriverCbid_cuLaunchKernelEx, "cuLaunchKernelEx"};
  ApiCall call(kLaunch, ApiCall::Truth::kSilent, queued.kernel->name());
  constexpr uint32_t kChannels = 24;
  Op op;
  op.kind = OpKind::kKernel;
  op.kernel = queued.kernel;
  op.correlation = call.correlation();
  op.grid[0] = kChannels;
  op.block[0] = 544;
  op.latency_ns = config().launch_latency_ns;
  op.meets = queued.meets;
  issue(*queued.stream, std::move(op));
  spin_until(call.begin_ns() + config().launch_cost_ns);
}

// Sends and receives of one communicator on one stream become one kernel, else two ranks that send to each
// other would wait for ever.
void launch_group() {
  std::vector<Queued> group;
  group.swap(t_group);
  std::vector<Queued> launches;
  for (Queued& queued : group) {
    const auto same = [&](const Queued& other) {
      return other.point_to_point && queued.point_to_point && other.comm == queued.comm &&
             other.stream == queued.stream;
    };
    const auto merged = std::find_if(launches.begin(), launches.end(), same);
    if (merged == launches.end()) {
      launches.push_back(std::move(queued));
    } else {
      merged->meets.insert(merged->meets.end(), queued.meets.begin(), queued.meets.end());
    }
  }
  for (const Queued& queued : launches) launch(queued);
}

ncclResult_t enqueue(Queued queued) {
  t_group.push_back(std::move(queued));
  if (t_group_depth == 0) launch_group();
  return ncclSuccess;
}

ncclResult_t collective(ncclComm_t comm, cudaStream_t handle, const std::string& kernel, size_t bytes,
                        const Message& message) {
  Stream* stream = comm ? resolve(*comm, handle) : nullptr;
  if (!stream) return ncclInvalidArgument;
  const auto ranks = static_cast<size_t>(comm->clique->ranks);
  if (message.root < 0 || static_cast<size_t>(message.root) >= ranks) return ncclInvalidArgument;
  auto meeting = comm->clique->join("collective", comm->collectives++, static_cast<size_t>(comm->rank), ranks,
                                    duration_ns(bytes), is_capturing(*stream) ? nullptr : &message);
  return enqueue({comm, stream, kernel_named(kernel), false, {std::move(meeting)}});
}

ncclResult_t point_to_point(ncclComm_t comm, cudaStream_t handle, int from, int to, uint64_t number,
                            const Message& message) {
  Stream* stream = resolve(*comm, handle);
  if (!stream) return ncclInvalidArgument;
  const std::string key = std::to_string(from) + " to " + std::to_string(to);
  const size_t place = message.exchange == Exchange::kSend ? 0 : 1;
  auto meeting = comm->clique->join(key, number, place, 2, duration_ns(message.count * size_of(message.type)),
                                    is_capturing(*stream) ? nullptr : &message);
  return enqueue({comm, stream, kernel_named("SendRecv"), true, {std::move(meeting)}});
}

bool is_peer(ncclComm_t comm, int peer) {
  return comm && peer >= 0 && peer < comm->clique->ranks;
}

}  // namespace

GWSIM_EXPORT ncclResult_t ncclGetVersion(int* version) {
  if (!version) return ncclInvalidArgument;
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  NcclCall call("ncclGetUniqueId");
  if (!id) return ncclInvalidArgument;
  std::snprintf(id->internal, sizeof id->internal, "%s", new_id().c_str());
  return ncclSuccess;
}
GWSIM_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  static const char* const kTexts[] = {"no error",
                                       "unhandled cuda error",
                                       "unhandled system error",
                                       "internal error",
                                       "invalid argument",
                                       "invalid usage",
                                       "remote process exited or there was a network error",
                                       "NCCL operation in progress"};
  return result >= 0 && result <= ncclInProgress ? kTexts[result] : "unknown result code";
}
GWSIM_EXPORT const char* ncclGetLastError(ncclComm_t) {
  return "";
}

GWSIM_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  NcclCall call("ncclCommInitRank");
  ensure_initialized();
  if (!comm || ranks < 1 || rank < 0 || rank >= ranks) return ncclInvalidArgument;
  if (!is_own_id(id.internal)) {
    std::fprintf(stderr, "[gpuwatch simulated device] NCCL ranks of several processes are not simulated\n");
    return ncclInvalidUsage;
  }
  std::lock_guard lock(g_cliques_mutex);
  auto& clique = cliques()[id.internal];
  if (!clique) clique = std::make_shared<Clique>(ranks);
  *comm = new ncclComm{clique, rank, static_cast<int>(current_device())};
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                 ncclConfig_t*) {
  return ncclCommInitRank(comm, ranks, id, rank);
}
GWSIM_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  NcclCall call("ncclCommInitAll");
  ensure_initialized();
  if (!comms || count < 1) return ncclInvalidArgument;
  const auto clique = std::make_shared<Clique>(count);
  for (int i = 0; i < count; ++i) comms[i] = new ncclComm{clique, i, devices ? devices[i] : i};
  return ncclSuccess;
}
// Of a communicator of one rank, which has nobody to agree with.
GWSIM_EXPORT ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int, ncclComm_t* made, ncclConfig_t*) {
  NcclCall call("ncclCommSplit");
  if (!comm || !made) return ncclInvalidArgument;
  if (comm->clique->ranks != 1) {
    std::fprintf(stderr, "[gpuwatch simulated device] ncclCommSplit of several ranks is not simulated\n");
    return ncclInvalidUsage;
  }
  *made = color == NCCL_SPLIT_NOCOLOR ? nullptr : new ncclComm{std::make_shared<Clique>(1), 0, comm->device};
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  NcclCall call("ncclCommFinalize");
  return comm ? ncclSuccess : ncclInvalidArgument;
}
GWSIM_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  NcclCall call("ncclCommDestroy");
  delete comm;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  NcclCall call("ncclCommAbort");
  delete comm;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  if (!comm || !error) return ncclInvalidArgument;
  *error = ncclSuccess;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (!comm || !count) return ncclInvalidArgument;
  *count = comm->clique->ranks;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  if (!comm || !device) return ncclInvalidArgument;
  *device = comm->device;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (!comm || !rank) return ncclInvalidArgument;
  *rank = comm->rank;
  return ncclSuccess;
}

GWSIM_EXPORT ncclResult_t ncclGroupStart() {
  NcclCall call("ncclGroupStart");
  ++t_group_depth;
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclGroupEnd() {
  NcclCall call("ncclGroupEnd");
  if (t_group_depth == 0) return ncclInvalidUsage;
  if (--t_group_depth == 0) launch_group();
  return ncclSuccess;
}

// Operators that the program makes: their results are not computed.
GWSIM_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void*, ncclDataType_t,
                                                   ncclScalarResidence_t, ncclComm_t comm) {
  NcclCall call("ncclRedOpCreatePreMulSum");
  if (!op || !comm) return ncclInvalidArgument;
  *op = static_cast<ncclRedOp_t>(ncclNumOps);
  return ncclSuccess;
}
GWSIM_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t, ncclComm_t comm) {
  NcclCall call("ncclRedOpDestroy");
  return comm ? ncclSuccess : ncclInvalidArgument;
}

GWSIM_EXPORT ncclResult_t ncclAllReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                                        ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclAllReduce");
  const std::string kernel = std::string("AllReduce_") + name_of(op) + "_" + name_of(type) + "_RING_LL";
  return collective(comm, stream, kernel, count * size_of(type),
                    {Exchange::kAllReduce, from, to, count, type, op});
}
GWSIM_EXPORT ncclResult_t ncclReduce(const void* from, void* to, size_t count, ncclDataType_t type,
                                     ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclReduce");
  const std::string kernel = std::string("Reduce_") + name_of(op) + "_" + name_of(type) + "_RING_LL";
  return collective(comm, stream, kernel, count * size_of(type),
                    {Exchange::kReduce, from, to, count, type, op, root});
}
GWSIM_EXPORT ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type,
                                            ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclReduceScatter");
  if (!comm) return ncclInvalidArgument;
  const std::string kernel = std::string("ReduceScatter_") + name_of(op) + "_" + name_of(type) + "_RING_LL";
  return collective(comm, stream, kernel, count * size_of(type) * static_cast<size_t>(comm->clique->ranks),
                    {Exchange::kReduceScatter, from, to, count, type, op});
}
GWSIM_EXPORT ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type,
                                        ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclAllGather");
  if (!comm) return ncclInvalidArgument;
  return collective(comm, stream, "AllGather_RING_LL",
                    count * size_of(type) * static_cast<size_t>(comm->clique->ranks),
                    {Exchange::kAllGather, from, to, count, type});
}
GWSIM_EXPORT ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type,
                                       ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclAlltoAll");
  if (!comm) return ncclInvalidArgument;
  return collective(comm, stream, "SendRecv",
                    count * size_of(type) * static_cast<size_t>(comm->clique->ranks),
                    {Exchange::kAllToAll, from, to, count, type});
}
GWSIM_EXPORT ncclResult_t ncclBroadcast(const void* from, void* to, size_t count, ncclDataType_t type,
                                        int root, ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclBroadcast");
  return collective(comm, stream, "Broadcast_RING_LL", count * size_of(type),
                    {Exchange::kBroadcast, from, to, count, type, ncclSum, root});
}
GWSIM_EXPORT ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                    ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}
GWSIM_EXPORT ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer,
                                   ncclComm_t comm, cudaStream_t stream) {
  NcclCall call("ncclSend");
  if (!is_peer(comm, peer)) return ncclInvalidArgument;
  return point_to_point(comm, stream, comm->rank, peer, comm->sends[peer]++,
                        {Exchange::kSend, from, nullptr, count, type});
}
GWSIM_EXPORT ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                   cudaStream_t stream) {
  NcclCall call("ncclRecv");
  if (!is_peer(comm, peer)) return ncclInvalidArgument;
  return point_to_point(comm, stream, peer, comm->rank, comm->receives[peer]++,
                        {Exchange::kReceive, nullptr, to, count, type});
}

GWSIM_ALSO_AS_PNCCL(GetVersion);
GWSIM_ALSO_AS_PNCCL(GetUniqueId);
GWSIM_ALSO_AS_PNCCL(GetErrorString);
GWSIM_ALSO_AS_PNCCL(GetLastError);
GWSIM_ALSO_AS_PNCCL(CommInitRank);
GWSIM_ALSO_AS_PNCCL(CommInitRankConfig);
GWSIM_ALSO_AS_PNCCL(CommInitAll);
GWSIM_ALSO_AS_PNCCL(CommFinalize);
GWSIM_ALSO_AS_PNCCL(CommDestroy);
GWSIM_ALSO_AS_PNCCL(CommAbort);
GWSIM_ALSO_AS_PNCCL(CommGetAsyncError);
GWSIM_ALSO_AS_PNCCL(CommCount);
GWSIM_ALSO_AS_PNCCL(CommCuDevice);
GWSIM_ALSO_AS_PNCCL(CommUserRank);
GWSIM_ALSO_AS_PNCCL(GroupStart);
GWSIM_ALSO_AS_PNCCL(GroupEnd);
GWSIM_ALSO_AS_PNCCL(CommSplit);
GWSIM_ALSO_AS_PNCCL(RedOpCreatePreMulSum);
GWSIM_ALSO_AS_PNCCL(RedOpDestroy);
GWSIM_ALSO_AS_PNCCL(AllReduce);
GWSIM_ALSO_AS_PNCCL(Reduce);
GWSIM_ALSO_AS_PNCCL(ReduceScatter);
GWSIM_ALSO_AS_PNCCL(AllGather);
GWSIM_ALSO_AS_PNCCL(AlltoAll);
GWSIM_ALSO_AS_PNCCL(Broadcast);
GWSIM_ALSO_AS_PNCCL(Bcast);
GWSIM_ALSO_AS_PNCCL(Send);
GWSIM_ALSO_AS_PNCCL(Recv);
