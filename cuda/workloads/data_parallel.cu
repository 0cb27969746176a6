// SPDX-License-Identifier: Apache-2.0
// Stall: one process drives two GPUs as nn.DataParallel does: each step sends the model to the second one,
// trains on both, and collects the gradients on the first. `--in-turn`, a model in two parts: the second GPU
// goes on with what the first one made.
#include "model.cuh"
#include "options.h"
#include "phase_log.h"

int main(int argc, char** argv) {
  const Options o(argc, argv, {{"steps", 50}, {"model-mib", 256}, {"in-turn", 0}});
  constexpr int kDevices = 2;
  const size_t bytes = static_cast<size_t>(o.integer("model-mib")) << 20;
  Model* models[kDevices];
  float *inputs[kDevices] = {}, *parameters[kDevices] = {};
  cudaStream_t streams[kDevices];
  cudaEvent_t done[kDevices];
  for (int device = 0; device < kDevices; ++device) {
    CHECK(cudaSetDevice(device));
    models[device] = new Model;
    CHECK(cudaMalloc(&inputs[device], Model::kParameters * sizeof(float)));
    CHECK(cudaMalloc(&parameters[device], bytes));
    CHECK(cudaStreamCreate(&streams[device]));
    CHECK(cudaEventCreateWithFlags(&done[device], cudaEventDisableTiming));
  }
  const auto copy = [&](int to, int from) {
    CHECK(cudaMemcpyPeerAsync(parameters[to], to, parameters[from], from, bytes, streams[from]));
    CHECK(cudaEventRecord(done[from], streams[from]));
    CHECK(cudaStreamWaitEvent(streams[to], done[from], 0));
  };
  for (long step = 0; step < o.integer("steps"); ++step) {
    phase_log::Scope phase("step", step);
    CHECK(cudaSetDevice(0));
    if (o.on("in-turn")) models[0]->train(inputs[0], streams[0]);
    copy(1, 0);
    if (!o.on("in-turn")) models[0]->train(inputs[0], streams[0]);
    CHECK(cudaSetDevice(1));
    models[1]->train(inputs[1], streams[1]);
    copy(0, 1);
    CHECK(cudaSetDevice(0));
    CHECK(cudaStreamSynchronize(streams[0]));
  }
  for (int device = 0; device < kDevices; ++device) {
    CHECK(cudaSetDevice(device));
    CHECK(cudaDeviceSynchronize());
    delete models[device];
    CHECK(cudaEventDestroy(done[device]));
    CHECK(cudaStreamDestroy(streams[device]));
    CHECK(cudaFree(parameters[device]));
    CHECK(cudaFree(inputs[device]));
  }
}
