// SPDX-License-Identifier: Apache-2.0
#include "analyzer/model/kernel_class.h"

#include <algorithm>

namespace gpuwatch::model {
namespace {

struct KernelName {
  bool in_function_name;
  std::string_view part;
  KernelClass kernel_class;
};
constexpr bool function = true, anywhere = false;
constexpr KernelName kKernelNames[] = {
#define GW_KERNEL_CLASS(identifier, name, words)
#define GW_KERNEL_NAME(where, part, kernel_class) {where, part, KernelClass::k##kernel_class},
#include "analyzer/model/kernel_class.def"
#undef GW_KERNEL_NAME
#undef GW_KERNEL_CLASS
};

constexpr std::string_view kUnnamedNamespace = "(anonymous namespace)::";

// Reads a demangled name from left to right: a space outside of brackets ends the return type, a parenthesis
// the function's name.
class FunctionName {
 public:
  explicit FunctionName(std::string_view text) : text_(text) {}

  std::string_view find() {
    for (size_t i = 0; i < text_.size(); ++i) {
      if (text_.substr(i).starts_with(kUnnamedNamespace)) {
        i += kUnnamedNamespace.size() - 1;
        if (angles_ + parentheses_ == 0) restart(i + 1);
      } else if (!read(i)) {
        break;
      }
    }
    return text_.substr(begin_, std::min(end_, text_.size()) - begin_);
  }

 private:
  void restart(size_t at) {
    begin_ = at;
    end_ = std::string_view::npos;
  }

  // False: the function's name has ended. Within parentheses, < and > may be comparisons.
  bool read(size_t i) {
    const char c = text_[i];
    if (c == '(') {
      if (angles_ + parentheses_ == 0) {
        end_ = std::min(end_, i);
        return false;
      }
      ++parentheses_;
    } else if (c == ')') {
      parentheses_ -= parentheses_ > 0;
    } else if (parentheses_ == 0 && c == '<') {
      if (angles_++ == 0) end_ = std::min(end_, i);
    } else if (parentheses_ == 0 && c == '>') {
      angles_ -= angles_ > 0;
    } else if (c == ' ' && angles_ + parentheses_ == 0) {
      restart(i + 1);
    }
    return true;
  }

  std::string_view text_;
  size_t begin_ = 0, end_ = std::string_view::npos;
  size_t angles_ = 0, parentheses_ = 0;
};

bool is_of_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// PyTorch passes what a general kernel computes as a type; CUTLASS passes the matmul.
bool tells_work(std::string_view word) {
  if (word.starts_with("cutlass_")) return true;
  for (const std::string_view end : {"_kernel_cuda", "_cuda_kernel", "Ops"})
    if (word.ends_with(end)) return true;
  return word.find("Functor") != std::string_view::npos && word != "BinaryFunctor" &&
         word != "AUnaryFunctor" && word != "BUnaryFunctor";
}

std::string_view word_of_work(std::string_view arguments) {
  for (size_t begin = 0; begin < arguments.size();) {
    size_t end = begin;
    while (end < arguments.size() && is_of_word(arguments[end])) ++end;
    if (const std::string_view word = arguments.substr(begin, end - begin); tells_work(word)) return word;
    begin = std::max(end, begin + 1);
  }
  return {};
}

}  // namespace

std::string short_kernel_name(std::string_view kernel_name) {
  const std::string_view function = function_name(kernel_name);
  const size_t colons = function.rfind("::");
  std::string name(colons == std::string_view::npos ? function : function.substr(colons + 2));
  const auto behind = static_cast<size_t>(function.data() - kernel_name.data()) + function.size();
  const std::string_view work = word_of_work(kernel_name.substr(std::min(behind, kernel_name.size())));
  if (!work.empty()) name.append(" ").append(work);
  return name;
}

std::string_view function_name(std::string_view kernel_name) {
  const std::string_view name = FunctionName(kernel_name).find();
  return name.empty() ? kernel_name : name;
}

KernelClass kernel_class(std::string_view kernel_name) {
  const std::string_view name = function_name(kernel_name);
  for (const KernelName& row : kKernelNames)
    if ((row.in_function_name ? name : kernel_name).find(row.part) != std::string_view::npos)
      return row.kernel_class;
  return KernelClass::kOther;
}

}  // namespace gpuwatch::model
