// SPDX-License-Identifier: Apache-2.0
// Another NVTX tool: writes each call that it is given, and the handles and ids that it gives out, to
// OTHER_TOOL_LOG.
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>
#include <stdlib.h>

static FILE* log_file;
static long last_handle = 1000;

#define SAY(...) (fprintf(log_file, __VA_ARGS__), fflush(log_file))

static void on_mark(const char* text) {
  SAY("mark %s\n", text);
}
static int on_push(const char* text) {
  return SAY("push %s\n", text), 41;
}
static int on_push_wide(const wchar_t* text) {
  return SAY("push wide %ls\n", text), 41;
}
static int on_push_event(const nvtxEventAttributes_t* e) {
  return SAY("push %s category %u payload %d %llx\n", e->message.ascii, e->category, e->payloadType,
             (unsigned long long)e->payload.ullValue),
         41;
}
static int on_pop(void) {
  return SAY("pop\n"), 40;
}
static nvtxRangeId_t on_start(const char* text) {
  return SAY("start %s\n", text), (nvtxRangeId_t)++last_handle;
}
static void on_end(nvtxRangeId_t id) {
  SAY("end %llu\n", (unsigned long long)id);
}
static void on_category(uint32_t number, const char* text) {
  SAY("category %u %s\n", number, text);
}
static nvtxDomainHandle_t on_domain(const char* text) {
  return SAY("domain %s\n", text), (nvtxDomainHandle_t)++last_handle;
}
static nvtxStringHandle_t on_string(nvtxDomainHandle_t domain, const char* text) {
  return SAY("string %ld %s\n", (long)domain, text), (nvtxStringHandle_t)++last_handle;
}
static int on_domain_push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) {
  return SAY("push in %ld string %ld\n", (long)domain, (long)e->message.registered), 41;
}
static int on_domain_pop(nvtxDomainHandle_t domain) {
  return SAY("pop in %ld\n", (long)domain), 40;
}
static void on_domain_destroy(nvtxDomainHandle_t domain) {
  SAY("destroy %ld\n", (long)domain);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable core, domains;
  unsigned size;
  log_file = fopen(getenv("OTHER_TOOL_LOG"), "a");
  if (!log_file || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &core, &size) ||
      !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &domains, &size))
    return 0;
#define SET(table, id, function) *table[id] = (NvtxFunctionPointer)function
  SET(core, NVTX_CBID_CORE_MarkA, on_mark);
  SET(core, NVTX_CBID_CORE_RangePushA, on_push);
  SET(core, NVTX_CBID_CORE_RangePushW, on_push_wide);
  SET(core, NVTX_CBID_CORE_RangePushEx, on_push_event);
  SET(core, NVTX_CBID_CORE_RangePop, on_pop);
  SET(core, NVTX_CBID_CORE_RangeStartA, on_start);
  SET(core, NVTX_CBID_CORE_RangeEnd, on_end);
  SET(core, NVTX_CBID_CORE_NameCategoryA, on_category);
  SET(domains, NVTX_CBID_CORE2_DomainCreateA, on_domain);
  SET(domains, NVTX_CBID_CORE2_DomainRegisterStringA, on_string);
  SET(domains, NVTX_CBID_CORE2_DomainRangePushEx, on_domain_push);
  SET(domains, NVTX_CBID_CORE2_DomainRangePop, on_domain_pop);
  SET(domains, NVTX_CBID_CORE2_DomainDestroy, on_domain_destroy);
  return 1;
}
