// SPDX-License-Identifier: Apache-2.0
// CUPTI's callback API: subscription, callbacks by domain and id, names, versions.
#include <cupti.h>

#include <cstdio>

#include "buffers.h"
#include "callback_ids.h"
#include "cupti_clock.h"
#include "failure.h"
#include "record_layout.h"
#include "session.h"

#define GWSIM_EXPORT extern "C" __attribute__((visibility("default")))

using namespace gpuwatch::sim;

GWSIM_EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                        void* user_data) {
  GWSIM_MAY_FAIL();
  if (!subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  return Session::instance().subscribe(callback, user_data, nullptr, subscriber);
}

GWSIM_EXPORT CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                           void* user_data, CUpti_SubscriberParams* parameters) {
  GWSIM_MAY_FAIL();
  if (cupti_version() < kCupti13_0) return CUPTI_ERROR_NOT_SUPPORTED;  // it did not exist
  if (!subscriber) return CUPTI_ERROR_INVALID_PARAMETER;
  const char* name = parameters ? parameters->subscriberName : nullptr;
  const CUptiResult result = Session::instance().subscribe(callback, user_data, name, subscriber);
  if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && parameters &&
      parameters->oldSubscriberName) {
    std::snprintf(parameters->oldSubscriberName, parameters->oldSubscriberSize, "CUPTI for %s",
                  Session::instance().subscriber_name().c_str());
  }
  return result;
}

GWSIM_EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  GWSIM_MAY_FAIL();
  return Session::instance().unsubscribe(subscriber);
}

GWSIM_EXPORT CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                             CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  GWSIM_MAY_FAIL();
  if (!Session::instance().is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  Session::instance().enable_callback(domain, cbid, enable != 0);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle subscriber,
                                           CUpti_CallbackDomain domain) {
  GWSIM_MAY_FAIL();
  if (!Session::instance().is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  Session::instance().enable_domain(domain, enable != 0);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle subscriber) {
  GWSIM_MAY_FAIL();
  if (!Session::instance().is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  Session::instance().enable_domain(CUPTI_CB_DOMAIN_RUNTIME_API, enable != 0);
  Session::instance().enable_domain(CUPTI_CB_DOMAIN_DRIVER_API, enable != 0);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiGetCallbackState(uint32_t* enable, CUpti_SubscriberHandle subscriber,
                                               CUpti_CallbackDomain domain, CUpti_CallbackId cbid) {
  if (!enable || !Session::instance().is_subscriber(subscriber)) return CUPTI_ERROR_INVALID_PARAMETER;
  *enable = Session::instance().callback_enabled(domain, cbid);
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char** name) {
  if (!name) return CUPTI_ERROR_INVALID_PARAMETER;
  *name = nullptr;
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) {
    for (const auto& entry : kRuntimeCallbackNames) {
      if (entry.cbid == cbid) *name = entry.name;
    }
  } else if (domain == CUPTI_CB_DOMAIN_DRIVER_API) {
    for (const auto& entry : kDriverCallbackNames) {
      if (entry.cbid == cbid) *name = entry.name;
    }
  }
  return *name ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

GWSIM_EXPORT CUptiResult cuptiSupportedDomains(size_t* count, CUpti_DomainTable* table) {
  static CUpti_CallbackDomain domains[] = {CUPTI_CB_DOMAIN_DRIVER_API, CUPTI_CB_DOMAIN_RUNTIME_API};
  if (!count || !table) return CUPTI_ERROR_INVALID_PARAMETER;
  *count = sizeof domains / sizeof domains[0];
  *table = domains;
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  if (!version) return CUPTI_ERROR_INVALID_PARAMETER;
  *version = cupti_version();
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  if (!text) return CUPTI_ERROR_INVALID_PARAMETER;
  for (const ErrorName& entry : kCuptiResults) {
    if (entry.code != static_cast<int>(result)) continue;
    *text = entry.name;
    return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}
GWSIM_EXPORT CUptiResult cuptiGetErrorMessage(CUptiResult result, const char** text) {
  return cuptiGetResultString(result, text);
}

GWSIM_EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  if (!timestamp) return CUPTI_ERROR_INVALID_PARAMETER;
  *timestamp = cupti_time(now_ns());
  return CUPTI_SUCCESS;
}

GWSIM_EXPORT CUptiResult cuptiFinalize() {
  Session::instance().reset();
  if (has_buffer_callbacks()) flush_records(true);
  return CUPTI_SUCCESS;
}
