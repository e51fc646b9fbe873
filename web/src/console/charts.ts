/** Charts of the last minutes, a line for each encoder; colour and dashes tell the lines apart. */

import uPlot from "uplot";

import { beginning, KEPT, type Series } from "./history";
import { nameOf, numberOf } from "./slots";
import { STREAM_WORDS } from "./words";

const HEIGHT = 150;
const CLOCK = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
// Lines by the number of the slot, in all charts alike; more encoders than these look alike, and the
// legend names them.
const DASHES = [[], [6, 4], [2, 3], [10, 4, 2, 4]];
const COLOURS = ["--chart-1", "--chart-2", "--chart-3", "--chart-4"];

/** The least and the most that a chart shows of values between two. */
export type Range = (least: number, most: number) => [number, number];

export const fromZero: Range = (_, most) => [0, Math.max(most, 0.1) * 1.1];

/** Small changes of large values are seen. */
export const around: Range = (least, most) => {
  const middle = (least + most) / 2;
  const half = Math.max((most - least) * 0.6, 0.1);
  return [middle - half, middle + half];
};

export class Chart {
  private plot: uPlot | null = null;
  private slots = "";
  private latest: Series | null = null;
  private begin = 0;

  constructor(
    private readonly place: HTMLElement,
    private readonly scale: number,
    private readonly range: Range = fromZero,
  ) {
    new ResizeObserver(() => this.resize()).observe(place);
    // The lines have the page's colours, which change with the viewer's preference.
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
      this.slots = "";
      if (this.latest) this.draw(this.latest);
    });
  }

  /** Show the values of all encoders, which are divided by the chart's scale. */
  draw(series: Series): void {
    this.latest = series;
    const { times, slots, values } = series;
    const columns = values.map((column) =>
      column.map((value) => (value === null ? null : value / this.scale)),
    );
    const data = [times, ...columns] as uPlot.AlignedData;
    this.begin = beginning(series);
    const shown = slots.join(" ");
    if (this.plot && this.slots === shown) this.plot.setData(data);
    else {
      this.plot?.destroy();
      this.slots = shown;
      this.plot = new uPlot(this.options(slots), data, this.place);
    }
    // The legend has the newest values, unless a person points at others.
    if (this.plot.cursor.idx == null) this.plot.setLegend({ idx: times.length - 1 });
  }

  private resize(): void {
    const width = this.place.clientWidth;
    if (this.plot && width && width !== this.plot.width) this.plot.setSize({ width, height: HEIGHT });
  }

  private options(slots: readonly string[]): uPlot.Options {
    const colour = (name: string): string => getComputedStyle(this.place).getPropertyValue(name);
    const lines = { stroke: colour("--chart-axis"), grid: { stroke: colour("--chart-grid"), width: 1 } };
    return {
      width: this.place.clientWidth || KEPT,
      height: HEIGHT,
      // The last mark of the time is as wide to the right of the chart as to the left.
      padding: [null, 36, null, null],
      cursor: { drag: { x: false, y: false } },
      scales: {
        x: { range: (_, _least, most) => [this.begin, most] },
        y: { range: (_, least, most) => this.range(least, most) },
      },
      axes: [
        { ...lines, space: 110, size: 30, values: (_, marks) => marks.map(clockOf) },
        { ...lines, space: 26, size: 44, values: (_, marks) => marks.map(shortly) },
      ],
      series: [
        { label: STREAM_WORDS.time, value: (_, value) => (value == null ? "–" : clockOf(value)) },
        ...slots.map((slot): uPlot.Series => ({
          label: nameOf(slot),
          stroke: colour(COLOURS[numberOf(slot) % COLOURS.length] ?? ""),
          dash: DASHES[numberOf(slot) % DASHES.length] ?? [],
          width: 2,
          points: { show: false },
          spanGaps: false,
          value: (_, value) => (value == null ? "–" : shortly(value)),
        })),
      ],
    };
  }
}

function clockOf(seconds: number): string {
  return CLOCK.format(seconds * 1000);
}

function shortly(value: number): string {
  return String(+value.toFixed(2));
}
