// The drop-in has what programs link against, laid out as they expect it.
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <array>
#include <map>
#include <string>

std::map<std::string, long long> our_facts();
std::map<std::string, long long> nvidia_facts();

namespace {

TEST(NcclAbi, LayoutAndValuesAreNvidias) {
#ifdef SENNIT_HAS_NVIDIA_NCCL
  EXPECT_EQ(our_facts(), nvidia_facts());
#else
  GTEST_SKIP() << "nccl: needs NVIDIA's nccl.h and CUDA's headers (docs/nccl.md)";
#endif
}

// All that PyTorch 2.15, nccl-tests 2.19, CuPy 14 and JAX 0.12 need, and what they list beside it.
constexpr std::array kSymbols = {"ncclAllGather",
                                 "ncclAllReduce",
                                 "ncclAlltoAll",
                                 "ncclBcast",
                                 "ncclBroadcast",
                                 "ncclCommAbort",
                                 "ncclCommCount",
                                 "ncclCommCuDevice",
                                 "ncclCommDeregister",
                                 "ncclCommDestroy",
                                 "ncclCommFinalize",
                                 "ncclCommGetAsyncError",
                                 "ncclCommGetUniqueId",
                                 "ncclCommGrow",
                                 "ncclCommInitAll",
                                 "ncclCommInitRank",
                                 "ncclCommInitRankConfig",
                                 "ncclCommInitRankScalable",
                                 "ncclCommMemStats",
                                 "ncclCommQueryProperties",
                                 "ncclCommRegister",
                                 "ncclCommResume",
                                 "ncclCommRevoke",
                                 "ncclCommShrink",
                                 "ncclCommSplit",
                                 "ncclCommSuspend",
                                 "ncclCommUserRank",
                                 "ncclCommWindowDeregister",
                                 "ncclCommWindowRegister",
                                 "ncclDevCommCreate",
                                 "ncclDevCommDestroy",
                                 "ncclGather",
                                 "ncclGetErrorString",
                                 "ncclGetLastError",
                                 "ncclGetLsaMultimemDevicePointer",
                                 "ncclGetPeerDevicePointer",
                                 "ncclGetUniqueId",
                                 "ncclGetVersion",
                                 "ncclGroupEnd",
                                 "ncclGroupSimulateEnd",
                                 "ncclGroupStart",
                                 "ncclMemAlloc",
                                 "ncclMemFree",
                                 "ncclPutSignal",
                                 "ncclRecv",
                                 "ncclRedOpCreatePreMulSum",
                                 "ncclRedOpDestroy",
                                 "ncclReduce",
                                 "ncclReduceScatter",
                                 "ncclResetDebugInit",
                                 "ncclScatter",
                                 "ncclSend",
                                 "ncclSignal",
                                 "ncclWaitSignal",
                                 "ncclWinGetUserPtr"};

TEST(NcclAbi, EverySymbolIsThereAndHasItsTwin) {
  for (const std::string name : kSymbols) {
    void* const symbol = ::dlsym(RTLD_DEFAULT, name.c_str());
    EXPECT_NE(symbol, nullptr) << name;
    EXPECT_EQ(::dlsym(RTLD_DEFAULT, ("p" + name).c_str()), symbol) << name;
    Dl_info info{};
    ASSERT_NE(::dladdr(symbol, &info), 0) << name;
    EXPECT_NE(std::string(info.dli_fname).find("/nccl/libnccl.so.2"), std::string::npos) << name;
  }
}

TEST(NcclAbi, TheLoaderTakesItForNccl) {
  void* const library = ::dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD);
  ASSERT_NE(library, nullptr) << "a library of this name should be loaded already: ours";
  EXPECT_EQ(::dlsym(library, "ncclAllReduce"), ::dlsym(RTLD_DEFAULT, "ncclAllReduce"));
  ::dlclose(library);
}

}  // namespace
