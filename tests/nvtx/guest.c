// SPDX-License-Identifier: Apache-2.0
// A program that reports what it does through NVTX, with the vendor's headers; the first argument chooses:
//   calls     every kind of call once; writes its own times of each range to stdout, in ns of CLOCK_MONOTONIC
//   threads   eight threads with nested ranges
//   fork      forks inside a range
//   names     registers a domain and strings, and reports nothing
//   many      10 000 ranges, each of a name of its own
//   metadata  3000 ranges of three names, each with TraceMe's metadata, and one that only looks like it
//   deep      100 levels
//   categories   800 named categories, and a range of the first and of the last
//   strings   4000 registered strings, and a range of the first and of the last
//   threads-before   names 300 threads before anything is recorded
//   threads-named   a thread named before anything is recorded, and one named twice later; writes their ids
//   cost      ns of a pair of push and pop, for short ranges: plain text, registered string
#include <nvtx3/nvToolsExt.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

static long long now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void work(long long ns) {
  for (const long long end = now() + ns; now() < end;) {
  }
}

// begin: before and after the call that opens; end: before and after the one that closes
static void tell(const char* name, long long b0, long long b1, long long e0, long long e1) {
  printf("%s %lld %lld %lld %lld\n", name, b0, b1, e0, e1);
}

static nvtxEventAttributes_t event(void) {
  nvtxEventAttributes_t attributes;
  memset(&attributes, 0, sizeof attributes);
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  return attributes;
}

#define PUSH_POP(name, push, pop)  \
  do {                             \
    const long long b0 = now();    \
    push;                          \
    const long long b1 = now();    \
    work(20000);                   \
    const long long e0 = now();    \
    pop;                           \
    tell(name, b0, b1, e0, now()); \
  } while (0)

static void payloads(void) {
  nvtxEventAttributes_t e = event();
  e.category = 7;
#define ONE(label, type, field, value)      \
  e.message.ascii = label;                  \
  e.payloadType = NVTX_PAYLOAD_TYPE_##type; \
  e.payload.field = value;                  \
  PUSH_POP(label, nvtxRangePushEx(&e), nvtxRangePop())
  ONE("uint64", UNSIGNED_INT64, ullValue, 1ull << 63);
  ONE("int64", INT64, llValue, -5);
  ONE("double", DOUBLE, dValue, 2.5);
  ONE("uint32", UNSIGNED_INT32, uiValue, 4000000000u);
  ONE("int32", INT32, iValue, -7);
  ONE("float", FLOAT, fValue, 0.5f);
}

static void* end_range(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  return NULL;
}

static void calls(void) {
  nvtxNameCategoryA(7, "loading");
  PUSH_POP("plain", nvtxRangePushA("plain"), nvtxRangePop());
  PUSH_POP("wide-\xc3\xbc\xe2\x82\xac", nvtxRangePushW(L"wide-\u00fc\u20ac"), nvtxRangePop());
  payloads();

  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxDomainNameCategoryA(domain, 7, "inside");
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  e.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  e.category = 7;
  PUSH_POP("registered", nvtxDomainRangePushEx(domain, &e), nvtxDomainRangePop(domain));
  // The stacks of two domains are two: the outer range of one ends inside the other's.
  const long long b0 = now();
  nvtxRangePushA("crossing");
  const long long b1 = now();
  nvtxDomainRangePushEx(domain, &e);
  work(20000);
  const long long e0 = now();
  nvtxRangePop();
  tell("crossing", b0, b1, e0, now());
  nvtxDomainRangePop(domain);

  const long long s0 = now();
  nvtxRangeId_t id = nvtxRangeStartA("process");
  const long long s1 = now();
  work(20000);
  pthread_t other;
  const long long t0 = now();
  pthread_create(&other, NULL, end_range, &id);
  pthread_join(other, NULL);
  tell("process", s0, s1, t0, now());
  const long long m0 = now();
  nvtxMarkA("moment");
  const long long m1 = now();
  tell("moment", m0, m1, m0, m1);
  nvtxRangeEnd(id);  // it has ended
  nvtxRangePop();    // nothing is open
  nvtxDomainDestroy(domain);
}

static void* nested(void* unused) {
  for (int i = 0; i < 100; ++i) {
    for (int depth = 0; depth < 6; ++depth) {
      char name[32];
      snprintf(name, sizeof name, "level %d", depth);
      nvtxRangePushA(name);
    }
    work(10000);
    for (int depth = 0; depth < 6; ++depth) nvtxRangePop();
  }
  return unused;
}

static void threads(void) {
  pthread_t thread[8];
  for (int i = 0; i < 8; ++i) pthread_create(&thread[i], NULL, nested, NULL);
  for (int i = 0; i < 8; ++i) pthread_join(thread[i], NULL);
}

static void forking(void) {
  nvtxRangePushA("outer");
  const pid_t child = fork();
  if (child == 0) {
    nvtxRangePushA("child outer");
    nvtxRangePushA("child inner");
    work(20000);
    nvtxRangePop();
    nvtxRangePop();
    nvtxRangePop();  // the parent's
    _exit(0);
  }
  int status = 1;
  waitpid(child, &status, 0);
  nvtxRangePop();
  printf("child %d\n", status);
}

static void many(void) {
  for (int i = 0; i < 10000; ++i) {
    char name[32];
    snprintf(name, sizeof name, "item %d of 10", i);
    nvtxRangePushA(name);
    work(6000);
    nvtxRangePop();
  }
}

static void metadata(void) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("TSL");
  for (int i = 0; i < 1000; ++i) {
    char name[512];
    snprintf(name, sizeof name, "train#step_num=%d,_r=1#", i);
    PUSH_POP("train", nvtxRangePushA(name), nvtxRangePop());
    snprintf(name, sizeof name, "XlaPass:#name=fusion,module=%0300d#", i);
    PUSH_POP("pass", nvtxRangePushA(name), nvtxRangePop());
    snprintf(name, sizeof name, "execute#id=%d#", i);
    nvtxEventAttributes_t e = {.version = NVTX_VERSION, .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE};
    e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    e.message.registered = nvtxDomainRegisterStringA(domain, name);
    PUSH_POP("execute", nvtxDomainRangePushEx(domain, &e), nvtxDomainRangePop(domain));
  }
  PUSH_POP("plain", nvtxRangePushA("#1 of #2#"), nvtxRangePop());
}

static void deep(void) {
  for (int i = 0; i < 100; ++i) nvtxRangePushA("level");
  work(20000);
  for (int i = 0; i < 100; ++i) nvtxRangePop();
  PUSH_POP("after", nvtxRangePushA("after"), nvtxRangePop());
}

static void* name_yourself(void* unused) {
  const pid_t id = (pid_t)syscall(SYS_gettid);
  nvtxNameOsThreadA((uint32_t)id, "not yet");
  nvtxNameOsThreadW((uint32_t)id, L"reader \u00fc");
  PUSH_POP("in-the-thread", nvtxRangePushA("in-the-thread"), nvtxRangePop());
  printf("reader %d\n", id);
  return unused;
}

static void named(void) {
  nvtxNameOsThreadA((uint32_t)getpid(), "trainer");
  PUSH_POP("outside", nvtxRangePushA("outside"), nvtxRangePop());
  printf("trainer %d\n", getpid());
  pthread_t other;
  pthread_create(&other, NULL, name_yourself, NULL);
  pthread_join(other, NULL);
}

static void push_pop(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) {
  nvtxDomainRangePushEx(domain, e);
  work(20000);
  nvtxDomainRangePop(domain);
}

static void categories(void) {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  for (uint32_t i = 1; i <= 800; ++i) nvtxDomainNameCategoryA(domain, i, "named");
  nvtxDomainNameCategoryA(domain, 1, "renamed");
  nvtxEventAttributes_t e = event();
  e.message.ascii = "first";
  e.category = 1;
  push_pop(domain, &e);
  e.message.ascii = "last";
  e.category = 800;
  push_pop(domain, &e);
}

static void strings(void) {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxStringHandle_t first = NULL, last = NULL;
  for (int i = 0; i < 4000; ++i) {
    last = nvtxDomainRegisterStringA(domain, i ? "another" : "first");
    if (!first) first = last;
  }
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  e.message.registered = first;
  push_pop(domain, &e);
  e.message.registered = last;
  push_pop(domain, &e);
}

static void threads_before(void) {
  for (uint32_t i = 0; i < 300; ++i) nvtxNameOsThreadA(1000000 + i, "reader");
  PUSH_POP("afterwards", nvtxRangePushA("afterwards"), nvtxRangePop());
  nvtxNameOsThreadA(2000000, "late");
}

static double pair_ns(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* e) {
  double best = 1e9;
  for (int run = 0; run < 15; ++run) {
    const int pairs = 100000;
    const long long begin = now();
    for (int i = 0; i < pairs; ++i) {
      if (e) {
        nvtxDomainRangePushEx(domain, e);
        nvtxDomainRangePop(domain);
      } else {
        nvtxRangePushA("aten::convolution_backward");
        nvtxRangePop();
      }
    }
    const double ns = (double)(now() - begin) / pairs;
    if (ns < best) best = ns;
  }
  return best;
}

static void cost(void) {
  const nvtxDomainHandle_t domain = nvtxDomainCreateA("library");
  nvtxEventAttributes_t e = event();
  e.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  e.message.registered = nvtxDomainRegisterStringA(domain, "registered");
  printf("text %.1f ns, registered %.1f ns\n", pair_ns(NULL, NULL), pair_ns(domain, &e));
}

int main(int argc, char** argv) {
  const char* mode = argc > 1 ? argv[1] : "";
  if (!strcmp(mode, "calls")) calls();
  if (!strcmp(mode, "threads")) threads();
  if (!strcmp(mode, "fork")) forking();
  if (!strcmp(mode, "names")) nvtxDomainRegisterStringA(nvtxDomainCreateA("library"), "registered");
  if (!strcmp(mode, "many")) many();
  if (!strcmp(mode, "metadata")) metadata();
  if (!strcmp(mode, "deep")) deep();
  if (!strcmp(mode, "threads-named")) named();
  if (!strcmp(mode, "categories")) categories();
  if (!strcmp(mode, "strings")) strings();
  if (!strcmp(mode, "threads-before")) threads_before();
  if (!strcmp(mode, "cost")) cost();
  return 0;
}
