// As `program.c`, for WebAssembly: node program.mjs MODULE FUNCTIONS < request > response.
// FUNCTIONS: JSON, [name, whether it tells bytes] of each.
import { readFileSync, writeSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const functions = JSON.parse(process.argv[3]);
const { exports } = instance;
const { memory } = exports;
const request = readFileSync(0);
const FENCE = 64, EMPTY = 0xa5, BESIDE = 0x5a;
const wide = typeof exports.__heap_base.value === "bigint";  // addresses of 64 bits
const address = wide ? BigInt : Number;
const blocks = [];
let place = 0, end = Number(exports.__heap_base.value);

const number = () => Number(request.readBigInt64LE((place += 8) - 8));
const numbers = () => Array.from({ length: number() }, number);
const block = (index) => (index < 0 ? 0 : blocks[index].at);
const view = (at, size) => new Uint8Array(memory.buffer, at, size);

function make(size) {
  const at = Math.ceil(end / 64) * 64;
  end = at + size + FENCE;
  const missing = end - memory.buffer.byteLength;
  if (missing > 0) memory.grow(address(Math.ceil(missing / 65536)));
  view(at + size, FENCE).fill(BESIDE);
  blocks.push({ at, size });
  return view(at, size);
}

function put(bytes) {
  for (let done = 0; done < bytes.length; ) done += writeSync(1, bytes, done);
}

function putNumber(value) {
  const bytes = Buffer.alloc(8);
  bytes.writeBigInt64LE(BigInt(value));
  put(bytes);
}

for (;;) {
  const command = number();
  if (command === 1) {
    const size = number();
    make(size).set(request.subarray(place, (place += size)));
  } else if (command === 2) make(number()).fill(EMPTY);
  else if (command === 3) {
    const table = numbers().map(block);
    const size = wide ? 8 : 4, { buffer, byteOffset } = make(size * Math.max(table.length, 1));
    const cells = new (wide ? BigUint64Array : Uint32Array)(buffer, byteOffset, table.length);
    cells.set(table.map(address));
  } else if (command === 4) {
    const [name, tellsBytes] = functions[number()];
    const pointers = numbers().map(block).map(address), sizes = numbers().map(BigInt);
    const result = exports[name](...pointers, ...sizes);
    putNumber(wide || !tellsBytes || result === -1 ? result : result >>> 0);
  } else if (command === 5) {
    const { at, size } = blocks[number()];
    put(view(at, size));
  } else break;
}
putNumber(blocks.filter(({ at, size }) => view(at + size, FENCE).some((b) => b !== BESIDE)).length);
