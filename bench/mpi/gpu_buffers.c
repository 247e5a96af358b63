/* Times collectives of a program for MPI with buffers in GPU memory, in three ways that take turns:
 *
 *   time_us    as the program calls them, with the library before the MPI
 *   hand_us    as a program does it whose MPI knows no CUDA: copied to pinned host memory, by the
 *              MPI's own collective, and back
 *   call_us    as a C program calls the library, and waits for the stream
 *
 *   gpu_buffers LIBSENNIT SAMPLES     rank 0 writes a line of JSON for each collective and size
 *
 * A sample is some calls in a row; its time is that of the slowest rank. */
#define _GNU_SOURCE /* dladdr */
#include <sennit/sennit.h>

#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWays = 3, kMostSamples = 1000, kMostBytes = 64 << 20 };
static const double sample_seconds = 2e-3;
static const int sizes[] = {
    8, 64, 1 << 10, 16 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, kMostBytes};

static int rank;
static int ranks;
/* On the GPU, and pinned on the host. */
static char* in;
static char* out;
static char* host_in;
static char* host_out;

typedef uint64_t Pointer;
static struct {
  int (*init)(unsigned);
  int (*count)(int*);
  int (*retain)(void**, int);
  int (*use)(void*);
  int (*allocate)(Pointer*, size_t);
  int (*pin)(void**, size_t, unsigned);
  int (*copy_in)(void*, Pointer, size_t);
  int (*copy_out)(Pointer, const void*, size_t);
  int (*wait)(void*);
} cuda;
static struct {
  sennit_comm_t comm;
  sennit_status_t (*create_id)(sennit_unique_id_t*);
  sennit_status_t (*init)(
      sennit_comm_t*, int, const sennit_unique_id_t*, int, const sennit_config_t*);
  sennit_status_t (*destroy)(sennit_comm_t);
  sennit_status_t (*all_reduce)(const void*,
                                void*,
                                size_t,
                                sennit_dtype_t,
                                sennit_redop_t,
                                sennit_comm_t,
                                void*,
                                const sennit_call_options_t*);
  sennit_status_t (*all_to_all)(const void*,
                                void*,
                                size_t,
                                sennit_dtype_t,
                                sennit_comm_t,
                                void*,
                                const sennit_call_options_t*);
} library;

static void need(int is_right, const char* what) {
  if (!is_right) {
    fprintf(stderr, "gpu_buffers: rank %d: %s failed\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
}
static void find(void* handle, const char* name, void* function) {
  void* const found = handle == NULL ? NULL : dlsym(handle, name);
  need(found != NULL, name);
  memcpy(function, &found, sizeof(found));
}

static void open_cuda(void) {
  void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
  int devices = 0;
  void* context = NULL;
  Pointer memory[2];
  find(driver, "cuInit", &cuda.init);
  find(driver, "cuDeviceGetCount", &cuda.count);
  find(driver, "cuDevicePrimaryCtxRetain", &cuda.retain);
  find(driver, "cuCtxSetCurrent", &cuda.use);
  find(driver, "cuMemAlloc_v2", &cuda.allocate);
  find(driver, "cuMemHostAlloc", &cuda.pin);
  find(driver, "cuMemcpyDtoH_v2", &cuda.copy_in);
  find(driver, "cuMemcpyHtoD_v2", &cuda.copy_out);
  find(driver, "cuStreamSynchronize", &cuda.wait);
  need(cuda.init(0) == 0 && cuda.count(&devices) == 0 && devices > 0, "opening CUDA");
  need(cuda.retain(&context, rank % devices) == 0 && cuda.use(context) == 0, "taking a GPU");
  for (int i = 0; i < 2; ++i) {
    need(cuda.allocate(&memory[i], kMostBytes) == 0, "cuMemAlloc");
  }
  in = (char*)memory[0];
  out = (char*)memory[1];
  need(cuda.pin((void**)&host_in, kMostBytes, 1) == 0, "cuMemHostAlloc");
  need(cuda.pin((void**)&host_out, kMostBytes, 1) == 0, "cuMemHostAlloc");
  memset(host_in, 0, kMostBytes);
  need(cuda.copy_out((Pointer)in, host_in, kMostBytes) == 0, "cuMemcpyHtoD");
}

static void open_library(const char* path) {
  void* const handle = dlopen(path, RTLD_NOW);
  sennit_unique_id_t id;
  sennit_config_t config = SENNIT_CONFIG_INITIALIZER;
  find(handle, "sennit_unique_id_create", &library.create_id);
  find(handle, "sennit_comm_init_rank", &library.init);
  find(handle, "sennit_comm_destroy", &library.destroy);
  find(handle, "sennit_all_reduce", &library.all_reduce);
  find(handle, "sennit_all_to_all", &library.all_to_all);
  need(library.create_id(&id) == SENNIT_OK, "sennit_unique_id_create");
  MPI_Bcast(&id, sizeof(id), MPI_BYTE, 0, MPI_COMM_WORLD);
  config.device = "cuda";
  need(library.init(&library.comm, ranks, &id, rank, &config) == SENNIT_OK,
       "sennit_comm_init_rank");
}

/* The MPI's own function, whoever stands before it: looked up in its library alone. */
static void of_the_mpi(const char* name, void* function) {
  Dl_info info;
  dladdr((void*)&MPI_Get_library_version, &info); /* this one nobody stands before */
  find(dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD), name, function);
}

static int (*mpi_all_reduce)(const void*, void*, int, MPI_Datatype, MPI_Op, MPI_Comm);
static int (*mpi_all_to_all)(const void*, int, MPI_Datatype, void*, int, MPI_Datatype, MPI_Comm);

static void all_reduce(int way, int bytes) {
  const int count = bytes / 4;
  if (way == 0) {
    MPI_Allreduce(in, out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  } else if (way == 1) {
    cuda.copy_in(host_in, (Pointer)in, (size_t)bytes);
    mpi_all_reduce(host_in, host_out, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    cuda.copy_out((Pointer)out, host_out, (size_t)bytes);
  } else {
    library.all_reduce(
        in, out, (size_t)count, SENNIT_FLOAT32, SENNIT_SUM, library.comm, NULL, NULL);
    cuda.wait(NULL);
  }
}
static void all_to_all(int way, int bytes) {
  const int block = bytes / ranks;
  if (way == 0) {
    MPI_Alltoall(in, block, MPI_BYTE, out, block, MPI_BYTE, MPI_COMM_WORLD);
  } else if (way == 1) {
    cuda.copy_in(host_in, (Pointer)in, (size_t)bytes);
    mpi_all_to_all(host_in, block, MPI_BYTE, host_out, block, MPI_BYTE, MPI_COMM_WORLD);
    cuda.copy_out((Pointer)out, host_out, (size_t)bytes);
  } else {
    library.all_to_all(in, out, (size_t)block, SENNIT_UINT8, library.comm, NULL, NULL);
    cuda.wait(NULL);
  }
}

static double run(void (*call)(int way, int bytes), int way, int bytes, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = MPI_Wtime();
  for (int i = 0; i < calls; ++i) {
    call(way, bytes);
  }
  double own = (MPI_Wtime() - begin) / calls;
  double slowest = own;
  mpi_all_reduce(&own, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}

static int compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static void measure(const char* name, void (*call)(int, int), int bytes, int samples) {
  static const char* const names[kWays] = {"time_us", "hand_us", "call_us"};
  static double times[kWays][kMostSamples];
  int calls[kWays];
  for (int way = 0; way < kWays; ++way) {
    run(call, way, bytes, 3);
    const double fit = sample_seconds / run(call, way, bytes, 3);
    calls[way] = fit < 2 ? 2 : fit > 500 ? 500 : (int)fit;
  }
  for (int sample = 0; sample < samples; ++sample) {
    for (int turn = 0; turn < kWays; ++turn) {
      const int way = (turn + sample) % kWays;
      times[way][sample] = 1e6 * run(call, way, bytes, calls[way]);
    }
  }
  if (rank != 0) {
    return;
  }
  printf("{\"collective\": \"%s\", \"ranks\": %d, \"bytes\": %d, \"samples\": %d",
         name,
         ranks,
         bytes,
         samples);
  for (int way = 0; way < kWays; ++way) {
    qsort(times[way], (size_t)samples, sizeof(double), &compare);
    printf(", \"%s\": {\"min\": %.3f, \"p50\": %.3f}",
           names[way],
           times[way][0],
           times[way][samples / 2]);
  }
  printf("}\n");
  fflush(stdout);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int samples = argc > 2 ? atoi(argv[2]) : 0;
  if (samples < 1 || samples > kMostSamples) {
    fprintf(stderr, "gpu_buffers LIBSENNIT SAMPLES, with 1 to %d samples\n", kMostSamples);
    return EXIT_FAILURE;
  }
  open_cuda();
  open_library(argv[1]);
  of_the_mpi("PMPI_Allreduce", &mpi_all_reduce);
  of_the_mpi("PMPI_Alltoall", &mpi_all_to_all);
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    measure("all_reduce", &all_reduce, sizes[i], samples);
    measure("all_to_all", &all_to_all, sizes[i], samples);
  }
  library.destroy(library.comm);
  if (rank == 0) {
    char version[MPI_MAX_LIBRARY_VERSION_STRING];
    int length = 0;
    MPI_Get_library_version(version, &length);
    version[strcspn(version, "\n,")] = '\0';
    printf("{\"mpi\": \"%s\"}\n", version);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
