profile 1
name h200
gpus H200
compute_capability 90
measured_on 2 and 4 H200 SXM with 18 links of NVLink 4 each, PCIe 5 x16 to the host
# Names in quotes are runs in bench/results. Sizes are of all ranks together unless a line says
# otherwise; M is 2^20.

# What a second hop costs, as bytes that a GPU could have sent meanwhile: about 1 us at 350 GB/s
# ("h200x4-slots"). Through host memory: on 4 GPUs an all_reduce of 32 KB took 9.1 us in one hop
# and 10.8 in two, of 64 KB 17.2 and 13.3 ("h200x4-host-packets").
size hop 350000
size host_hop 75000

# Up to this, all messages that a rank sends in a hop take ll. It sends two bytes for one and spares
# the wait of a whole warp for a whole packet. On 2 GPUs it was ahead up to here with every
# collective, by 0.3 to 2.6 us, and with some up to 256 KB ("h200x2-packets").
size ll 128K
# Of one message, through host memory. Slots have a fence and a word more to wait for: a broadcast
# of 32 KB to 3 ranks took 4.6 us by ll and 6.9 by slots, an all_gather of as much from each 8.7 and
# 15.2, an all_reduce of 128 KB in two hops 19.3 and 32.2. Beyond it warps wait one by one: 64 KB
# took 54.9 us by ll and 7.5 by slots ("h200x4-host-packets").
size host_ll 32K

# From these sizes on copy engines put. us for 64 MB, 256 MB and 1 GB on 4 GPUs
# ("h200x4-copy-engines-put"), by SMs in brackets ("h200x4-gpu-second"): all_gather 189 (162), 590
# (598), 2138 (2314); all_to_all 185 (168), 593 (601), 2137 (2324); all_reduce 373 (312), 1150
# (1205), 4343 (4729); reduce_scatter 215 (169), 633 (618), 2312 (2387). On 2: all_gather 123 (107),
# 385 (393), 1424 (1516); all_to_all 124 (104), 388 (388), 1427 (1503); all_reduce 233 (209), 756
# (786), 2817 (3054); reduce_scatter 142 (118), 433 (410), 1563 (1562). Of 96 and 128 MB
# ("h200x4-copy-sizes", "h200x2-copy-sizes") all_gather and all_to_all take 5 % longer to 5 % less
# alone, and with products, which then have all SMs, 15 to 20 % less of 4 ranks, and up to 23 % less
# of 2 from 128 MB on.
size copy_engines 96M
size copy_engines.all_reduce 192M
size copy_engines.reduce_scatter 512M
# A broadcast between two is one copy: 1 % ahead of stores at 128 MB, and 11 % with a share through
# the host ("h200x2-lines").
size copy_engines.broadcast 128M
# Of one message. Kernels that store it in place were 5 % ahead at 64 MB, copy engines by 1 % at 256
# MB and by 7 % (one way) at 1 GB ("h200x2-gpu-first", "h200x2-pair-puts").
size copy_engines.send_recv 128M

# From these sizes on kernels store blocks in the outputs of others. On 4 GPUs: ahead of packets by
# a fifth at 16 MB, by 3 and 4 % at 4 MB (docs/lab/2026-11-24-kernels.md). Of one message, whose
# ends agree before it moves: at 256 KB as fast as packets, ahead by 7 % at 1 MB
# ("h200x2-gpu-first").
size one_sided 8M
size one_sided.send_recv 512K

# Of collectives whose blocks kernels store in place, so few thread blocks store a message; each
# takes an SM. us of all_gathers of 4, 16, 64 and 128 MB of two ranks, with 63 blocks in brackets
# ("h200x2-few-blocks"): 11.2 (11.5), 29.4 (29.4), 101 (99.5), 196 (194). On 2 H100s, of 16, 32 and
# 64 MB in graphs beside products, all_gathers were over 14, 2 and 5 % earlier, all_to_alls 2, 2 and
# 5 % ("h100x2-few-blocks"). Not for sends: a ring of 4, 16, 64 and 128 MB took 18.2, 56.5, 209 and
# 409, with 64 blocks 17.1, 51.8, 191 and 376. Of 4 ranks, 16, 64 and 128 MB ("h200x4-few-blocks",
# 64 blocks in brackets): all_gather 44.9 (43.4), 158 (156), 307 (300); all_to_all 46.4 (44.3), 162
# (160), 314 (308); in graphs beside products all_gathers of 64 and 128 MB took 1.72 (1.88) and 1.61
# (1.81) ms, of 32 MB as long as with 64. With 16 blocks 64 MB took 174 us alone.
puts all_gather up_to_ranks 2 from 4M blocks 12
puts all_gather up_to_ranks 4 from 48M blocks 32
puts all_to_all up_to_ranks 2 from 4M blocks 12
puts all_to_all up_to_ranks 4 from 48M blocks 32

# Reductions that few thread blocks read where they lie. us on 2 H100s for 16, 32, 64 and 128 MB
# ("h100x2-reads"), by packets of 128 blocks in brackets: all_reduce 61.6 (58.2), 113 (109), 217
# (209), 422 (402); reduce_scatter 36.3 (33.8), 62.7 (59.5), 114 (112), 215 (214). 16 calls of 32 MB
# and 8 of 64 MB beside products: all_reduce 2.84 (3.20), 2.42 (3.11) ms; reduce_scatter 1.89
# (1.95), 1.53 (1.64). With 8 blocks 64 MB took 2.75 and 2.57, with 24 2.31 and 1.43. Of 4 ranks
# ("h200x4-few-blocks"), alone: all_reduce of 32 and 64 MB 171 (160), 329 (308) us, reduce_scatter
# of 64 and 256 MB 166 (162), 623 (604); beside products 3.65 (4.48), 3.44 (4.52) ms, and 1.81
# (2.35), 1.70 (2.32). Smaller ones gain nothing there.
reads all_reduce up_to_ranks 2 from 24M blocks 16
reads all_reduce up_to_ranks 4 from 24M blocks 24
reads reduce_scatter up_to_ranks 2 from 24M blocks 16
reads reduce_scatter up_to_ranks 4 from 48M blocks 32

# The same, of processes of one GPU under the Multi-Process Service, with as many blocks as the part
# of each has room for: no wire limits them. us on one H200 ("shared-gpu-reads"), packets in
# brackets: all_reduce of 2 and 4 ranks, 1 MB 7.1 (6.4), 11.0 (9.5), 2 MB 8.7 (10.9), 13.2 (18.8);
# of 8, 512 KB 15.2 (14.2), 1 MB 16.5 (20.8); of 16, 128 KB 21.7 (22.4), 256 KB 21.8 (23.9), 1 MB
# 28.3 (38.0); reduce_scatter of 4, 2 MB 12.2 (11.0), 4 MB 14.2 (19.7), of 8, 1 MB 15.2 (10.9), 2 MB
# 18.6 (22.7), of 16, 512 KB 20.2 (16.9), 1 MB 21.5 (22.6).
shared_reads all_reduce up_to_ranks 4 from 2M blocks 64
shared_reads all_reduce up_to_ranks 8 from 1M blocks 64
shared_reads all_reduce up_to_ranks 16 from 128K blocks 64
shared_reads reduce_scatter up_to_ranks 4 from 4M blocks 64
shared_reads reduce_scatter up_to_ranks 8 from 2M blocks 64
shared_reads reduce_scatter up_to_ranks 16 from 1M blocks 64

# Where no GPU reaches another: from these sizes on copy engines move blocks through the host. Of
# 32, 64 and 256 MB ("nop2p-rings"), with kernels in brackets: on 4 GPUs broadcast 778 (861), 1464
# (1709), 5721 (6703), all_to_all 985 (735), 1965 (1394), 7551 (5335), so kernels keep that; on 2
# broadcast 785 (841), 1447 (1678), 5402 (6709), all_to_all 553 (542), 1024 (1058), 3674 (4121).
# Kernels keep all_gather, too: of 64 MB it took 1395 (1099). Of sends in a ring, one message: 4 MB
# took 172 us, by kernels 187 ("h200x4-host-rings").
host_copies broadcast up_to_ranks 1024 from 32M
host_copies all_to_all up_to_ranks 2 from 48M
host_copies gather up_to_ranks 1024 from 32M
host_copies scatter up_to_ranks 1024 from 32M
size host_copy_engines.send_recv 4M

# Where ranks reach each other in groups, an all_reduce goes through the groups from this size on: 2
# + 2 GPUs took 25 us for 256 KB and 20 for 64 KB, all through the host 36 and 15
# ("h200x4-groups-crossover").
size groups 128K

# How a call travels as packets of kernels. The first row that fits holds; where none does, a model
# decides. ll128 and slots of every collective were timed from 1 MB to 1 GB in steps of four
# ("h200x4-slots"); a row begins at the geometric mean of the last size where another way won and
# the first where this one did. A broadcast of 256 KB in one hop took 5.4 us ("h200x4-first"), in
# two hops 6.6 ("h200x4-slots"), one of 1 MB 13.3 and 8.2. Ways of reduce ("h200x4-reduce"): 256 KB
# 5.9 and 7.3 us, 1 MB 10.1 and 9.8. Rows of two ranks: "h200x2-gpu-first", of reduce
# "h200x2-exchanges" (ll128 16 MB 56.5 us, 64 MB 209; slots 57.4 and 197), up to 256 KB
# "h200x2-packets". More than four ranks were not measured: they take slots where these won for
# every collective of four.
packets all_reduce up_to_ranks 2 from 32M algorithm one_shot protocol slots
packets all_reduce up_to_ranks 2 from 256K algorithm one_shot protocol ll128
packets all_reduce up_to_ranks 2 from 128K algorithm one_shot protocol ll
packets all_reduce up_to_ranks 4 from 8M algorithm two_shot protocol slots
packets all_reduce up_to_ranks 16 from 128M algorithm two_shot protocol slots

packets all_gather up_to_ranks 2 from 128M algorithm direct protocol slots
packets all_gather up_to_ranks 2 from 2M algorithm direct protocol ll128
packets all_gather up_to_ranks 4 from 8M algorithm direct protocol slots
packets all_gather up_to_ranks 16 from 128M algorithm direct protocol slots

packets reduce_scatter up_to_ranks 2 from 32M algorithm direct protocol slots
packets reduce_scatter up_to_ranks 2 from 2M algorithm direct protocol ll128
packets reduce_scatter up_to_ranks 16 from 128M algorithm direct protocol slots
packets reduce_scatter up_to_ranks 4 from 32M algorithm direct protocol ll128
packets reduce_scatter up_to_ranks 4 from 8M algorithm direct protocol slots

packets all_to_all up_to_ranks 2 from 32M algorithm direct protocol slots
packets all_to_all up_to_ranks 2 from 2M algorithm direct protocol ll128
packets all_to_all up_to_ranks 16 from 128M algorithm direct protocol slots
packets all_to_all up_to_ranks 4 from 32M algorithm direct protocol ll128
packets all_to_all up_to_ranks 4 from 8M algorithm direct protocol slots

packets broadcast up_to_ranks 2 from 32M algorithm direct protocol slots
packets broadcast up_to_ranks 2 from 8M algorithm direct protocol ll128
packets broadcast up_to_ranks 2 from 2M algorithm direct protocol slots
packets broadcast up_to_ranks 2 from 512K algorithm direct protocol ll128
packets broadcast up_to_ranks 2 from 128K algorithm direct protocol ll
packets broadcast up_to_ranks 16 from 128M algorithm scatter_forward protocol slots
packets broadcast up_to_ranks 4 from 512K algorithm scatter_forward protocol ll128
packets broadcast up_to_ranks 4 from 128K algorithm direct protocol ll128

packets reduce up_to_ranks 2 from 32M algorithm direct protocol slots
packets reduce up_to_ranks 2 from 512K algorithm direct protocol ll128
packets reduce up_to_ranks 2 from 128K algorithm direct protocol ll
packets reduce up_to_ranks 4 from 512K algorithm scatter_gather protocol ll128
packets reduce up_to_ranks 4 from 128K algorithm direct protocol ll128

packets send_recv up_to_ranks 2 from 4M algorithm direct protocol slots

# The percent of each block that goes through host memory beside copies over NVLink, at the best
# time ("h200x2-lines"; on 4 GPUs an all_gather gained nothing since copy engines put). The first
# row that fits. docs/lab/2026-11-24-nvlink-and-host.md has the figures. Messages begin with that
# and follow the load: of those a share counts that is near the best both one way and both ways.
# Without a row a message whose share follows the load begins with first_dynamic_share.
host_share all_gather up_to_ranks 2 from 768M percent 8
host_share all_gather up_to_ranks 2 from 384M percent 6
host_share all_to_all up_to_ranks 2 from 768M percent 8
host_share all_to_all up_to_ranks 2 from 384M percent 6
host_share broadcast up_to_ranks 2 from 384M percent 10
host_share broadcast up_to_ranks 2 from 128M percent 8
host_share send_recv up_to_ranks 2 from 2048M percent 8
host_share send_recv up_to_ranks 2 from 512M percent 6
first_dynamic_share 6

# Of the kernels of codecs, encoding and decoding: of an all_to_all of 64 and 256 MB between 2 H100s
# what is left without the time of as many plain bytes as were moved ("codec-nop2p"): q8 61 and 218
# us, mx8 63 and 222; zfp:8 90 of 64 MB.
codec q8 gb_per_s 1100
codec mx8 gb_per_s 1100
codec zfp gb_per_s 700
