// The questions, by the file that asks them. Each runs in a process of its own on GPU 0, says one
// line or more, and may leave its context broken.
#pragma once

namespace grapevine::facts {

// order.cpp: what the adversary of the tests takes CUDA to do
void ask_event();
void ask_pageable();
void ask_sticky();

// learning.cpp: how the host comes to know of an event, and what calls and bells cost
void ask_learn();
void ask_cost();
void ask_bubbles();

// passes.cpp: exchanges beside gradients, and many at once
void ask_priority();
void ask_batch();

// memory.cpp: the GPU itself, copies, and what allocations wait for
void ask_device();
void ask_copy();
void ask_allocate();

// sharing.cpp: memory of another process, read where it lies
void ask_vmm();
void ask_killed();
void ask_exporter_faults();
void ask_read_only();

// neighbours.cpp: a second process on the GPU
void ask_context();
void ask_two_processes();

// nccl.cpp, where NCCL was found: an edge between two hosts, as far as one GPU can tell
void ask_nccl_price();
void ask_nccl_absent_peer();
void ask_nccl_one_gpu_twice();

/// Roles of a partner: told on descriptor kSocket what to do (processes.hpp).
void play_exporter();
void play_neighbour();

}  // namespace grapevine::facts
