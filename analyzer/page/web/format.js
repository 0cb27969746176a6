// SPDX-License-Identifier: Apache-2.0
// Numbers as people read them. Pure functions.

// "148", "14.8", "1.48": as the terminal report has them.
export function threeDigits(value) {
  const size = Math.abs(value);
  return value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : 2);
}

export function milliseconds(value) {
  if (Math.abs(value) >= 1e4) return `${threeDigits(value / 1e3)} s`;
  return value !== 0 && Math.abs(value) < 0.1 ? `${threeDigits(value * 1e3)} µs` : `${threeDigits(value)} ms`;
}

export function nanoseconds(value) {
  return milliseconds(value / 1e6);
}

export function percent(share) {
  const value = share * 100;
  if (value > 0 && value < 0.05) return "<0.1%";
  return `${value >= 10 || value === 0 ? value.toFixed(0) : value.toFixed(1)}%`;
}

export function times(value) {
  return `${value.toFixed(value < 1.095 ? 2 : value < 9.95 ? 1 : 0)}x`;
}

export function count(value) {
  return value.toLocaleString("en-US", { maximumFractionDigits: 2 });
}

export function plural(number, word, several = `${word}s`) {
  return `${count(number)} ${number === 1 ? word : several}`;
}

// Of an axis, whose ticks are so far apart: "20 ms", not "20.0 ms".
export function tickWords(ns, apart) {
  const [unit, word] = apart >= 1e9 ? [1e9, "s"] : apart >= 1e6 ? [1e6, "ms"] : apart >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return `${Number((ns / unit).toFixed(3))} ${word}`;
}
