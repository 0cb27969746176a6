// SPDX-License-Identifier: Apache-2.0
// The libnvrtc stand-in: programs that always compile, to an image that the simulated driver takes (it looks
// at none). A kernel's duration follows from its name and its launch, as for every kernel of a program
// (core/kernel.h). A program belongs to one thread at a time. Source of the values: NVIDIA's documentation of
// NVRTC (nvrtcResult).
#include <cstring>
#include <map>
#include <string>

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

enum Result : int {
  kSuccess = 0,
  kInvalidInput = 3,
  kInvalidProgram = 4,
  kNoNameExpressions = 8,
  kNoLoweredNames = 9
};

// Frameworks keep compiled code for later runs, PyTorch in files named by this version: a run on a real
// device must not find what was "compiled" here. No release has this minor version.
constexpr int kMajor = 13, kMinor = 99;

constexpr char kImage[] = "// Made by gpuwatch's simulated device from a program that it did not compile.\n";

struct Program {
  std::map<std::string, std::string> lowered;  // by expression
  bool is_compiled = false;
};

// A kernel is known by the expression that names it ("scale<float>"), where the compiler would mangle it.
std::string lowered_name(const char* expression) {
  std::string name = expression;
  name.erase(0, name.find_first_not_of("& \t\n"));
  name.erase(name.find_last_not_of(" \t\n") + 1);
  return name;
}

int copy_size(const Program* program, size_t* size, size_t bytes) {
  if (!program || !size) return kInvalidInput;
  *size = bytes;
  return kSuccess;
}

int copy_image(const Program* program, char* to) {
  if (!program || !to) return kInvalidInput;
  if (!program->is_compiled) return kInvalidProgram;
  std::memcpy(to, kImage, sizeof kImage);
  return kSuccess;
}

}  // namespace

GWSIM_EXPORT int nvrtcVersion(int* major, int* minor) {
  if (!major || !minor) return kInvalidInput;
  *major = kMajor, *minor = kMinor;
  return kSuccess;
}
GWSIM_EXPORT const char* nvrtcGetErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "NVRTC_SUCCESS";
    case kInvalidInput:
      return "NVRTC_ERROR_INVALID_INPUT";
    case kInvalidProgram:
      return "NVRTC_ERROR_INVALID_PROGRAM";
    case kNoNameExpressions:
      return "NVRTC_ERROR_NO_NAME_EXPRESSIONS_AFTER_COMPILATION";
    case kNoLoweredNames:
      return "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    default:
      return "NVRTC_ERROR unknown";
  }
}

GWSIM_EXPORT int nvrtcCreateProgram(Program** program, const char* source, const char*, int,
                                    const char* const*, const char* const*) {
  if (!program || !source) return kInvalidInput;
  *program = new Program;
  return kSuccess;
}
GWSIM_EXPORT int nvrtcDestroyProgram(Program** program) {
  if (!program || !*program) return kInvalidProgram;
  delete *program;
  *program = nullptr;
  return kSuccess;
}
GWSIM_EXPORT int nvrtcAddNameExpression(Program* program, const char* expression) {
  if (!program) return kInvalidProgram;
  if (!expression) return kInvalidInput;
  if (program->is_compiled) return kNoNameExpressions;
  program->lowered[expression] = lowered_name(expression);
  return kSuccess;
}
GWSIM_EXPORT int nvrtcCompileProgram(Program* program, int, const char* const*) {
  if (!program) return kInvalidProgram;
  program->is_compiled = true;
  return kSuccess;
}
GWSIM_EXPORT int nvrtcGetLoweredName(const Program* program, const char* expression, const char** name) {
  if (!program || !expression || !name) return kInvalidInput;
  if (!program->is_compiled) return kNoLoweredNames;
  const auto found = program->lowered.find(expression);
  if (found == program->lowered.end()) return kInvalidInput;
  *name = found->second.c_str();
  return kSuccess;
}

GWSIM_EXPORT int nvrtcGetPTXSize(const Program* program, size_t* size) {
  return copy_size(program, size, sizeof kImage);
}
GWSIM_EXPORT int nvrtcGetPTX(const Program* program, char* to) {
  return copy_image(program, to);
}
GWSIM_EXPORT int nvrtcGetCUBINSize(const Program* program, size_t* size) {
  return copy_size(program, size, sizeof kImage);
}
GWSIM_EXPORT int nvrtcGetCUBIN(const Program* program, char* to) {
  return copy_image(program, to);
}
GWSIM_EXPORT int nvrtcGetProgramLogSize(const Program* program, size_t* size) {
  return copy_size(program, size, 1);
}
GWSIM_EXPORT int nvrtcGetProgramLog(const Program* program, char* to) {
  if (!program || !to) return kInvalidInput;
  *to = '\0';
  return kSuccess;
}
