// SPDX-License-Identifier: Apache-2.0
// Graphs: stream capture, nodes added by hand, instantiation and launch.
#include "core/graph.h"

#include "core/copy.h"
#include "core/memory.h"
#include "runtime.h"

using namespace gpuwatch::sim;

namespace {

// A node's dependencies as indices; false if one is not of this graph.
bool indices_of(const Graph& graph, const cudaGraphNode_t* nodes, size_t count, std::vector<uint32_t>& out) {
  for (size_t i = 0; i < count; ++i) {
    const int64_t index = graph.index_of(nodes[i]);
    if (index < 0) return false;
    out.push_back(static_cast<uint32_t>(index));
  }
  return true;
}

cudaError_t add_node(RuntimeCall& call, cudaGraphNode_t* out, cudaGraph_t handle,
                     const cudaGraphNode_t* after, size_t count, Op op) {
  if (!out || !handle) return call.done(cudaErrorInvalidValue);
  Graph* graph = resolve(handle);
  std::vector<uint32_t> dependencies;
  if (!indices_of(*graph, after, count, dependencies)) return call.done(cudaErrorInvalidValue);
  const uint32_t index = graph->add(std::move(op), std::move(dependencies));
  *out = reinterpret_cast<cudaGraphNode_t>(graph->nodes[index].get());
  return call.done();
}

cudaError_t instantiate(RuntimeCall& call, cudaGraphExec_t* out, cudaGraph_t graph) {
  if (!out || !graph) return call.done(cudaErrorInvalidValue);
  *out = reinterpret_cast<cudaGraphExec_t>(new GraphExec(*resolve(graph), current_device()));
  return call.done();
}

Op kernel_op(const Kernel& kernel, const cudaKernelNodeParams& p) {
  Op op;
  op.kind = OpKind::kKernel;
  op.kernel = &kernel;
  op.grid[0] = p.gridDim.x, op.grid[1] = p.gridDim.y, op.grid[2] = p.gridDim.z;
  op.block[0] = p.blockDim.x, op.block[1] = p.blockDim.y, op.block[2] = p.blockDim.z;
  op.shared_bytes = p.sharedMemBytes;
  op.duration_ns = kernel.duration_ns(uint64_t{p.gridDim.x} * p.gridDim.y * p.gridDim.z,
                                      uint64_t{p.blockDim.x} * p.blockDim.y * p.blockDim.z);
  op.latency_ns = config().launch_latency_ns;
  return op;
}

}  // namespace

GWSIM_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode) {
  GWSIM_CALL(cudaStreamBeginCapture);
  Stream* stream = resolve(handle);
  if (!stream) return call.done(cudaErrorInvalidResourceHandle);
  return call.done(begin_capture(*stream, nullptr) ? cudaSuccess : cudaErrorStreamCaptureUnsupported);
}
GWSIM_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  GWSIM_CALL(cudaStreamEndCapture);
  Stream* stream = resolve(handle);
  if (!stream || !graph) return call.done(cudaErrorInvalidResourceHandle);
  *graph = nullptr;
  if (!is_capturing(*stream)) return call.done(cudaErrorIllegalState);
  *graph = reinterpret_cast<cudaGraph_t>(end_capture(*stream));
  return call.done(*graph ? cudaSuccess : cudaErrorStreamCaptureInvalidated);
}
GWSIM_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  GWSIM_SILENT_CALL(cudaStreamIsCapturing);
  Stream* stream = resolve(handle);
  if (!stream || !status) return call.done(cudaErrorInvalidResourceHandle);
  *status = is_capturing(*stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                                  unsigned long long* id, cudaGraph_t* graph,
                                                  const cudaGraphNode_t** dependencies,
                                                  const cudaGraphEdgeData** edges, size_t* count) {
  GWSIM_SILENT_CALL(cudaStreamGetCaptureInfo);
  Stream* stream = resolve(handle);
  if (!stream || !status) return call.done(cudaErrorInvalidResourceHandle);
  const CapturedPoint point = captured_point(*stream);
  *status = point.capture ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  if (!point.capture) return call.done();
  thread_local std::vector<cudaGraphNode_t> t_nodes;  // valid until the thread's next call
  t_nodes.clear();
  for (uint32_t node : point.nodes) {
    t_nodes.push_back(reinterpret_cast<cudaGraphNode_t>(point.capture->graph->nodes[node].get()));
  }
  if (id) *id = point.capture->id;
  if (graph) *graph = reinterpret_cast<cudaGraph_t>(point.capture->graph);
  if (dependencies) *dependencies = t_nodes.data();
  if (edges) *edges = nullptr;
  if (count) *count = t_nodes.size();
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  GWSIM_SILENT_CALL(cudaThreadExchangeStreamCaptureMode);
  thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;
  if (!mode) return call.done(cudaErrorInvalidValue);
  std::swap(t_mode, *mode);
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) {
  GWSIM_CALL(cudaGraphCreate);
  if (!graph) return call.done(cudaErrorInvalidValue);
  *graph = reinterpret_cast<cudaGraph_t>(new Graph);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGraphClone(cudaGraph_t* clone, cudaGraph_t original) {
  GWSIM_CALL(cudaGraphClone);
  if (!clone || !original) return call.done(cudaErrorInvalidValue);
  *clone = reinterpret_cast<cudaGraph_t>(new Graph(*resolve(original)));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  GWSIM_CALL(cudaGraphDestroy);
  if (!graph) return call.done(cudaErrorInvalidValue);
  delete resolve(graph);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  GWSIM_SILENT_CALL(cudaGraphGetNodes);
  if (!handle || !count) return call.done(cudaErrorInvalidValue);
  const Graph* graph = resolve(handle);
  const size_t room = nodes ? *count : 0;
  for (size_t i = 0; i < room && i < graph->nodes.size(); ++i) {
    nodes[i] = reinterpret_cast<cudaGraphNode_t>(graph->nodes[i].get());
  }
  *count = graph->nodes.size();
  return call.done();
}

GWSIM_EXPORT cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                                const cudaGraphNode_t* after, size_t count,
                                                const cudaKernelNodeParams* p) {
  GWSIM_CALL(cudaGraphAddKernelNode);
  const Kernel* kernel = p ? find_kernel(p->func) : nullptr;
  if (!kernel) return call.done(cudaErrorInvalidDeviceFunction);
  return add_node(call, node, graph, after, count, kernel_op(*kernel, *p));
}
GWSIM_EXPORT cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                              const cudaGraphNode_t* after, size_t count,
                                              const cudaHostNodeParams* p) {
  GWSIM_CALL(cudaGraphAddHostNode);
  if (!p || !p->fn) return call.done(cudaErrorInvalidValue);
  Op op;
  op.kind = OpKind::kHostFunction;
  op.host_function = [fn = p->fn, data = p->userData] { fn(data); };
  return add_node(call, node, graph, after, count, std::move(op));
}
GWSIM_EXPORT cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph,
                                               const cudaGraphNode_t* after, size_t count) {
  GWSIM_CALL(cudaGraphAddEmptyNode);
  return add_node(call, node, graph, after, count, Op{});
}

GWSIM_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  GWSIM_CALL(cudaGraphInstantiate);
  return instantiate(call, exec, graph);
}
GWSIM_EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                       unsigned long long) {
  GWSIM_CALL(cudaGraphInstantiateWithFlags);
  return instantiate(call, exec, graph);
}
GWSIM_EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* exec, cudaGraph_t graph,
                                                        cudaGraphInstantiateParams* p) {
  GWSIM_CALL(cudaGraphInstantiateWithParams);
  if (p) p->result_out = cudaGraphInstantiateSuccess;
  return instantiate(call, exec, graph);
}
GWSIM_EXPORT cudaError_t cudaGraphExecUpdate(cudaGraphExec_t exec, cudaGraph_t graph,
                                             cudaGraphExecUpdateResultInfo* result) {
  GWSIM_CALL(cudaGraphExecUpdate);
  if (!exec || !graph) return call.done(cudaErrorInvalidValue);
  if (result) *result = {};
  resolve(exec)->replace(*resolve(graph));
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t exec, cudaStream_t stream) {
  GWSIM_CALL(cudaGraphUpload);
  return call.done(exec && resolve(stream) ? cudaSuccess : cudaErrorInvalidResourceHandle);
}
GWSIM_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  GWSIM_CALL(cudaGraphLaunch);
  Stream* stream = resolve(handle);
  if (!exec || !stream) return call.done(cudaErrorInvalidResourceHandle);
  resolve(exec)->launch(*stream, call.correlation());
  spin_until(call.begin_ns() + config().launch_cost_ns);
  return call.done();
}
GWSIM_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  GWSIM_CALL(cudaGraphExecDestroy);
  if (!exec) return call.done(cudaErrorInvalidValue);
  delete resolve(exec);
  return call.done();
}
