// Bundles the tests beside this file for Node, and runs them: `npm test`.

import { build } from "esbuild";
import { spawnSync } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const names = (await readdir(here)).filter((name) => name.endsWith(".test.mjs"));
const out = await mkdtemp(join(tmpdir(), "headend-web-"));
try {
  await build({
    entryPoints: names.map((name) => join(here, name)),
    outdir: out,
    outExtension: { ".js": ".mjs" },
    bundle: true,
    platform: "node",
    format: "esm",
    logLevel: "warning",
  });
  const made = names.map((name) => join(out, name));
  const { status } = spawnSync(process.execPath, ["--test", ...made], { stdio: "inherit" });
  process.exitCode = status ?? 1;
} finally {
  await rm(out, { recursive: true });
}
