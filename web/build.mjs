// Builds what the service hands to browsers out of src/: `node build.mjs [FOLDER]`.
//
// The same sources and the same lock give the same bytes, on any machine: a test holds the
// committed files against a fresh build. Their names stay; the service adds a digest of the
// content to the address, so a browser may keep them for ever.

import { build } from "esbuild";
import { readFile, readdir, writeFile, copyFile, mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "..", "api", "static");

/** @type {import("esbuild").BuildOptions} */
const common = {
  absWorkingDir: here,
  bundle: true,
  minify: true,
  charset: "utf8",
  legalComments: "none", // THIRD_PARTY.txt carries the licences whole
  logLevel: "warning",
  metafile: true,
  outdir: out,
};

// hls.js' own distribution has these built in, under licences that want to be passed on. They are
// in package.json only so that their texts are at hand, in the versions that hls.js was built with.
const INSIDE = {
  "hls.js": [
    "@svta/cml-cmcd",
    "@svta/cml-id3",
    "@svta/cml-structured-field-values",
    "@svta/cml-utils",
    "eventemitter3",
    "url-toolkit",
  ],
};

/** The packages whose code went into a bundle, by the files that esbuild read. */
function packagesOf(metafile) {
  return Object.keys(metafile.inputs).flatMap((path) => {
    const name = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1];
    return name === undefined ? [] : [name, ...(INSIDE[name] ?? [])];
  });
}

async function manifestOf(name) {
  return JSON.parse(await readFile(join(here, "node_modules", name, "package.json"), "utf8"));
}

async function checkInside() {
  for (const [outer, names] of Object.entries(INSIDE)) {
    const { devDependencies } = await manifestOf(outer);
    for (const name of names) {
      const { version } = await manifestOf(name);
      if (devDependencies[name] !== version)
        throw new Error(`${outer} was built with ${name} ${devDependencies[name]}, not ${version}`);
    }
  }
}

async function licenceOf(name) {
  const folder = join(here, "node_modules", name);
  const file = (await readdir(folder)).find((each) => /^licen[cs]e(\.(md|txt))?$/i.test(each));
  if (file === undefined) throw new Error(`${name} has no licence`);
  return readFile(join(folder, file), "utf8");
}

/** All licences, one that several packages share only once. */
async function notices(names) {
  const shared = new Map();
  for (const name of [...new Set(names)].sort()) {
    const { version, license, homepage } = await manifestOf(name);
    const text = (await licenceOf(name)).trimEnd();
    const key = text.toLowerCase().replace(/\s+/g, " ").trim();
    const entry = shared.get(key) ?? { titles: [], text: text.replace(/^\n+/, "") };
    entry.titles.push(`${name} ${version} (${license})\n  ${homepage}`);
    shared.set(key, entry);
  }
  const rule = `\n\n${"-".repeat(80)}\n\n`;
  const parts = [...shared.values()].map(({ titles, text }) => `${titles.join("\n")}\n\n${text}`);
  return `${["What others wrote in the files of this folder.", ...parts].join(rule)}\n`;
}

await checkInside();
await mkdir(out, { recursive: true });
const page = await build({
  ...common,
  entryPoints: ["src/watch.ts", "src/watch.css"],
  format: "iife",
  target: ["chrome94", "firefox93", "safari15"],
});
// On strangers' pages: as old a browser as there may be, and nothing but our own few lines.
const loader = await build({
  ...common,
  entryPoints: ["src/embed.ts"],
  format: "iife",
  target: ["es2017"],
});
// The console, for browsers of people who manage: of 2022 and later.
// Each file in pages/ is one more bundle, of the pages that name it: pages/stream.ts becomes
// console_stream.js, and pages/stream.css console_stream.css.
const pages = await readdir(join(here, "src", "console", "pages")).catch(() => []);
const console_ = await build({
  ...common,
  entryPoints: [
    { in: "src/console/main.ts", out: "console" },
    { in: "src/console/console.css", out: "console" },
    ...pages.sort().map((name) => ({
      in: `src/console/pages/${name}`,
      out: `console_${name.slice(0, name.lastIndexOf("."))}`,
    })),
  ],
  format: "iife",
  target: ["chrome105", "firefox121", "safari15.4"],
});
const names = [page, loader, console_].flatMap(({ metafile }) => packagesOf(metafile));
await writeFile(join(out, "THIRD_PARTY.txt"), await notices(names));
for (const name of ["icon.svg", "card.jpg"]) await copyFile(join(here, "src", name), join(out, name));
