// Reads the clock off every presented frame of a page's video (bench/latency/clock.py has the code).
//
// `watch` is called with each page before its scripts. `window.latencyProbe` collects: `frames` are
// [time of day (ms), latency (ms), playback rate, height], `unread` counts frames without a clock,
// `stalls` are the times at which a playing video had to wait, `longest` is the longest time (ms)
// between two presented frames; `ended` is when the video had ended, and `sought` when a script
// of `watch` told it to seek.
(() => {
  const BITS = 32;
  const ROWS = 9;
  const CLEAR = 60; // levels between a white cell and a black one, at least
  const probe = { frames: [], unread: 0, stalls: [], longest: 0, started: null, errors: [] };
  probe.sought = probe.ended = null;
  window.latencyProbe = probe;

  // Two samples across a cell and two down, each from well within the cell.
  const canvas = new OffscreenCanvas(2 * BITS, 4);
  const context = canvas.getContext("2d", { willReadFrequently: true });

  function clock(video) {
    const { videoWidth: width, videoHeight: height } = video;
    context.drawImage(video, 0, 0, width, (2 * height) / ROWS, 0, 0, 2 * BITS, 4);
    const { data } = context.getImageData(0, 0, 2 * BITS, 4);
    const level = (row, column) => {
      let sum = 0;
      for (const y of [2 * row, 2 * row + 1]) {
        for (const x of [2 * column, 2 * column + 1]) sum += data[4 * (y * 2 * BITS + x) + 1];
      }
      return sum / 4;
    };
    let time = 0;
    for (let column = 0; column < BITS; column += 1) {
      const [white, black] = [level(0, column), level(1, column)];
      if (Math.abs(white - black) < CLEAR) return null;
      if (white > black) time += 2 ** column;
    }
    return time;
  }

  function watch(video) {
    let last = null;
    const each = (now) => {
      const time = clock(video);
      const today = Date.now();
      if (time === null) probe.unread += 1;
      else {
        probe.started ??= today;
        const wrap = 2 ** BITS;
        const latency = (((today % wrap) - time + wrap + wrap / 2) % wrap) - wrap / 2;
        probe.frames.push([today, latency, video.playbackRate, video.videoHeight]);
        if (last !== null) probe.longest = Math.max(probe.longest, now - last);
        last = now;
      }
      video.requestVideoFrameCallback(each);
    };
    video.requestVideoFrameCallback(each);
    video.addEventListener("waiting", () => {
      if (probe.started !== null && !video.paused && !video.seeking) probe.stalls.push(Date.now());
    });
    video.addEventListener("ended", () => (probe.ended ??= Date.now()));
  }

  const find = () => {
    const video = window.headend?.video ?? document.querySelector("video");
    if (video) watch(video);
    else setTimeout(find, 50);
  };
  find();
})();
