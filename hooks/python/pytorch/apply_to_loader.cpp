// SPDX-License-Identifier: Apache-2.0
#include "hooks/python/pytorch/apply_to_loader.h"

#include <cstring>

#include "hooks/core/applied_settings.h"
#include "hooks/python/interpreter/object.h"
#include "hooks/python/pytorch/iterators.h"
#include "hooks/python/pytorch/loader_info.h"
#include "hooks/python/pytorch/sharding.h"
#include "libinject/base/text.h"
#include "libinject/record/recorder.h"

namespace gpuwatch::hooks::python {
namespace {

using applied::Request;
using applied::Setting;

using Words = base::Text<512>;
constexpr long kMostWorkers = 1024;

class LoaderSettings {
 public:
  LoaderSettings(PyObject* loader, const char* place) noexcept : loader_(loader), place_(place) {
    workers_ = long_attribute(loader, "num_workers", 0);
  }

  void apply() noexcept {
    if (const Request* wanted = find(Setting::num_workers, place_)) set_workers(*wanted);
    if (const Request* wanted = find(Setting::prefetch_factor, place_)) set_prefetch(*wanted);
    if (const Request* wanted = find(Setting::persistent_workers, place_)) set_persistent(*wanted);
    if (const Request* wanted = find(Setting::pin_memory, place_)) set_switch(*wanted);
    if (const Request* wanted = find(Setting::in_order, place_)) set_switch(*wanted);
    if (const Request* wanted = find(Setting::multiprocessing_context, place_)) set_context(*wanted);
    if (done_.size() > 0) applied::note_applied(at_place(done_).c_str());
    if (refused_.size() > 0) applied::note_refused(at_place(refused_).c_str());
  }

 private:
  Words at_place(const Words& words) const noexcept {
    Words result;
    result.add(words.c_str());
    return place_[0] ? static_cast<Words&&>(result.add(" at ").add(place_)) : result;
  }

  // The text of an attribute's value, as str() has it.
  Words shown(const char* name) const noexcept {
    Words words;
    const Ref value = attribute(loader_, name);
    const Ref as_text = value ? attribute(value.get(), "__str__") : Ref();
    const Ref result(as_text ? g_api.PyObject_CallFunctionObjArgs(as_text.get(), nullptr) : nullptr);
    if (!result) g_api.PyErr_Clear();
    return words.add(text(result.get()) ? text(result.get()) : "not known");
  }

  void note(const Request& wanted, const Words& before) noexcept {
    if (std::strcmp(before.c_str(), wanted.value) == 0) return;
    done_.add(done_.size() > 0 ? ", " : "").add(name_of(wanted.setting)).add('=').add(wanted.value);
    done_.add(" (was ").add(before.c_str()).add(')');
  }

  void refuse(const Request& wanted, const char* why) noexcept {
    refused_.add(refused_.size() > 0 ? "; " : "").add(name_of(wanted.setting)).add('=').add(wanted.value);
    refused_.add(", because ").add(why);
  }

  // Past DataLoader.__setattr__, which refuses a change of some attributes after construction.
  bool put(const char* name, PyObject* value) noexcept {
    const Ref members = value ? attribute(loader_, "__dict__") : Ref();
    const bool is_set = members && g_api.PyDict_SetItemString(members.get(), name, value) == 0;
    if (!is_set) g_api.PyErr_Clear();
    return is_set;
  }

  void set_workers(const Request& wanted) noexcept {
    const long count = wanted.number();
    const Ref dataset = attribute(loader_, "dataset");
    if (count == workers_) return;
    if (count < 0 || count > kMostWorkers) return refuse(wanted, "it is no number of workers");
    const bool repeats = sharding_of(loader_, dataset.get()) == Sharding::kNotSeen;
    if (repeats && (count > 1 || workers_ > 1))
      return refuse(wanted,
                    "its dataset does not split its samples among workers, so each would repeat them");
    if (count == 0 && long_attribute(loader_, "timeout", 0) > 0)
      return refuse(wanted, "a loader with a timeout needs workers");
    const Words before = shown("num_workers");
    const Ref number(g_api.PyLong_FromLong(count));
    if (!put("num_workers", number.get())) return refuse(wanted, "the loader does not take it");
    fit_to_workers(count);
    workers_ = count;
    note(wanted, before);
  }

  // What the constructor demands of the other arguments.
  void fit_to_workers(long count) noexcept {
    if (count > 0 && workers_ > 0) return;
    if (count > 0) {
      constexpr long kTorchsDefault = 2;
      const Ref ahead(g_api.PyLong_FromLong(kTorchsDefault));
      put("prefetch_factor", ahead.get());
      return;
    }
    put("prefetch_factor", g_api.none);
    const Ref off(g_api.PyBool_FromLong(0));
    put("persistent_workers", off.get());
    if (g_api.PyObject_SetAttrString(loader_, "multiprocessing_context", g_api.none) != 0)
      g_api.PyErr_Clear();
  }

  void set_prefetch(const Request& wanted) noexcept {
    if (wanted.number() < 1) return refuse(wanted, "it is no number of batches");
    if (workers_ <= 0) return refuse(wanted, "the loader has no workers");
    const Words before = shown("prefetch_factor");
    const Ref number(g_api.PyLong_FromLong(wanted.number()));
    if (!put("prefetch_factor", number.get())) return refuse(wanted, "the loader does not take it");
    note(wanted, before);
  }

  void set_persistent(const Request& wanted) noexcept {
    if (workers_ <= 0 && wanted.is_true()) return refuse(wanted, "the loader has no workers");
    set_switch(wanted);
  }

  // Only one that this version of PyTorch knows: in_order came with 2.6.
  void set_switch(const Request& wanted) noexcept {
    const char* name = name_of(wanted.setting);
    if (!attribute(loader_, name)) return refuse(wanted, "this version of PyTorch has no such setting");
    const Words before = shown(name);
    const Ref value(g_api.PyBool_FromLong(wanted.is_true()));
    if (!put(name, value.get())) return refuse(wanted, "the loader does not take it");
    note(wanted, before);
  }

  void set_context(const Request& wanted) noexcept {
    if (workers_ <= 0) return refuse(wanted, "the loader has no workers");
    const Words before = shown("multiprocessing_context");
    const Ref value(g_api.PyUnicode_InternFromString(wanted.value));
    if (!value || g_api.PyObject_SetAttrString(loader_, name_of(wanted.setting), value.get()) != 0) {
      g_api.PyErr_Clear();
      return refuse(wanted, "there is no such way to start workers here");
    }
    note(wanted, before);
  }

  PyObject* loader_;
  const char* place_;
  long workers_ = 0;
  Words done_, refused_;
};

}  // namespace

void apply_to_loader(PyObject* loader) noexcept {
  if (!applied::is_any_requested()) return;
  const record::Quiet quiet;
  const ErrorGuard guard;
  if (worker_index() >= 0) return;  // of a dataset's own loader: workers may not start workers
  const Location place = place_of_loader(loader);
  LoaderSettings(loader, place.c_str()).apply();
}

}  // namespace gpuwatch::hooks::python
