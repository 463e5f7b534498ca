#pragma once

// One time step of LSTM, GRU and RNN cells: a warp computes one hidden unit of one sequence.

#include "kernels/cuda/bodies/common.cuh"

namespace lagoon::cuda {

/// What lane 0 of a warp computes from the products.
struct CellUnit {
  const CellArgs& args;
  u32 unit;
  u64 state;  // index of the sequence's state in [batch, hidden]
  float products[kMaxCellGates] = {};

  LAGOON_DEVICE CellUnit(const CellArgs& cell, u32 sequence, u32 number)
      : args(cell), unit(number), state(u64{sequence} * cell.hidden) {}

  LAGOON_DEVICE float X(u32 gate) const {
    return args.x[state * args.gates + gate * args.hidden + unit];
  }
  LAGOON_DEVICE float Gate(u32 gate) const { return X(gate) + products[gate]; }
  LAGOON_DEVICE float State(const float* states) const { return states[state + unit]; }
  LAGOON_DEVICE void Write(u32 output, float value) const {
    args.out[output][state + unit] = value;
  }
  LAGOON_DEVICE void Blend(float z, float candidate) const {
    Write(0, candidate + z * (State(args.h) - candidate));
  }

  LAGOON_DEVICE void Lstm() const {
    const float before = State(args.extra[0]);
    const float* const peephole = args.extra[1];
    const bool peek = peephole != nullptr;
    const u32 hidden = args.hidden;
    const float in = SigmoidOf(Gate(0) + (peek ? peephole[unit] * before : 0));
    const float forget = SigmoidOf(Gate(2) + (peek ? peephole[2 * hidden + unit] * before : 0));
    const float c = forget * before + in * tanhf(Gate(3));
    const float out = SigmoidOf(Gate(1) + (peek ? peephole[hidden + unit] * c : 0));
    Write(0, out * tanhf(c));
    Write(1, c);
  }

  LAGOON_DEVICE void Finish() const {
    switch (static_cast<Cell>(args.kind)) {
      case Cell::kLstm:
        return Lstm();
      case Cell::kRnn:
        return Write(0, tanhf(Gate(0)));
      case Cell::kGruGates:
        Write(0, SigmoidOf(Gate(0)));
        return Write(1, SigmoidOf(Gate(1)) * State(args.h));
      case Cell::kGruState:
        return Blend(State(args.extra[0]), tanhf(Gate(2)));
      case Cell::kGruLinear: {
        const float reset = SigmoidOf(Gate(1));
        const float product = products[2] + args.extra[0][unit];
        return Blend(SigmoidOf(Gate(0)), tanhf(X(2) + reset * product));
      }
    }
  }
};

/// True for the gates whose weights are multiplied with the states.
LAGOON_DEVICE bool HasProduct(Cell kind, u32 gate) {
  switch (kind) {
    case Cell::kLstm:
      return true;
    case Cell::kRnn:
      return gate == 0;
    case Cell::kGruGates:
      return gate < 2;
    case Cell::kGruState:
      return gate == 2;
    case Cell::kGruLinear:
      return gate < 3;
  }
  return false;
}

LAGOON_DEVICE bool CellBody(const CellArgs& args, u32 tile, unsigned char* /*shared*/,
                            const BlockControl& control) {
  const u32 lane = threadIdx.x % 32;
  const u32 groups = DivideUp(args.hidden, kCellUnits);
  CellUnit cell(args, tile / groups, tile % groups * kCellUnits + threadIdx.x / 32);
  const auto kind = static_cast<Cell>(args.kind);
  const bool there = cell.unit < args.hidden;
  const float* const states = (kind == Cell::kGruState ? args.extra[1] : args.h) + cell.state;
  LAGOON_NO_UNROLL
  for (u32 begin = 0; begin < args.hidden; begin += kCellStatesPerCheck) {
    if (control.SyncShouldLeave()) return false;
    if (!there) continue;
    const u32 end = Min(args.hidden, begin + kCellStatesPerCheck);
    LAGOON_UNROLL
    for (u32 gate = 0; gate < kMaxCellGates; ++gate) {
      if (!HasProduct(kind, gate)) continue;
      const float* const weights = args.r + (u64{gate} * args.hidden + cell.unit) * args.hidden;
      for (u32 i = begin + lane; i < end; i += 32) cell.products[gate] += weights[i] * states[i];
    }
  }
  LAGOON_UNROLL
  for (u32 gate = 0; gate < kMaxCellGates; ++gate) {
    LAGOON_UNROLL
    for (i32 lanes = 16; lanes > 0; lanes /= 2) {
      cell.products[gate] += __shfl_xor_sync(kAllLanes, cell.products[gate], lanes);
    }
  }
  if (control.SyncShouldLeave()) return false;
  if (there && lane == 0) cell.Finish();
  return true;
}

}  // namespace lagoon::cuda
