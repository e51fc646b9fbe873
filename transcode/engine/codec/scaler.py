"""The scaling cascade: one frame in, one picture for each rendition out, scaled from the one above.

The cascade halves the cost of scaling everything from the source (3.2 s against 1.6 s of CPU for 20
s of 1080p30 into 720, 480 and 360) at no loss of measured quality. It is one filter graph: the
`scale` filter keeps the chroma siting, which a chain of plain conversions would shift at every
step. Pictures have square pixels, 8 bits and 4:2:0; pictures of another shape get black bars.
"""

from fractions import Fraction
from typing import Final

from av.filter import Graph
from av.filter.context import FilterContext
from av.video.frame import VideoFrame

from transcode.engine.codec.decode import TIME_BASE
from transcode.engine.codec.frame_format import Filter, FrameFormat, frame_format, rotation_of

# Luma as sharp as Lanczos with four taps instead of six and more; chroma, of which viewers see half
# as much, with two. It saves a third of Lanczos' CPU, and VMAF is higher.
SCALER: Final = {"flags": "bicublin", "param0": "0", "param1": "0.75"}
_ROUNDING: Final = 2  # pixels by which a shape may differ before bars are added

Size = tuple[int, int]


def fit(width: int, height: int, aspect: Fraction, box: Size) -> Size:
    """Return the even size at which a picture fills as much of `box` as its shape allows.

    `aspect` is a pixel's width by its height.
    """
    shown = width * aspect
    factor = min(box[0] / shown, Fraction(box[1], height))
    size = (round(shown * factor / 2) * 2, round(height * factor / 2) * 2)
    return (
        box[0] if box[0] - size[0] <= _ROUNDING else max(2, size[0]),
        box[1] if box[1] - size[1] <= _ROUNDING else max(2, size[1]),
    )


class Cascade:
    """Scales to `sizes`, largest first; rebuilt when the format of the source's frames changes."""

    def __init__(self, sizes: tuple[Size, ...]) -> None:
        self._sizes = sizes
        self._form: FrameFormat | None = None
        self._turn: tuple[str, ...] = ()
        self._deinterlacer: _Deinterlacer | None = None
        self._graph: Graph | None = None  # kept: the filters live as long as it does
        self._source: FilterContext | None = None
        self._sinks: list[FilterContext] = []

    def scale(self, frame: VideoFrame, aspect: Fraction) -> list[VideoFrame]:
        """Return the frame in all sizes, with its time; `aspect` is that of its pixels.

        Raises:
            av.error.FFmpegError: the frame's format cannot be converted.
        """
        # An edit list may leave out the keyframe before the first picture.
        if frame.key_frame or self._form is None:
            self._turn = rotation_of(frame)
        form = frame_format(frame, aspect, self._turn)
        source = self._source
        if form != self._form or source is None:
            self._source = self._deinterlacer = None
            source = self._build(form)
            self._form = form
        if frame.interlaced_frame:
            self._deinterlacer = self._deinterlacer or _Deinterlacer(form)
            frame = self._deinterlacer.deinterlace(frame)
        else:
            self._deinterlacer = None
        source.push(frame)
        return [picture for sink in self._sinks if isinstance(picture := sink.pull(), VideoFrame)]

    def _build(self, form: FrameFormat) -> FilterContext:
        graph = Graph()
        graph.threads = 1  # slices on several threads cost more than they save
        source = add_buffer(graph, form)
        sinks: list[FilterContext] = []
        above = source
        last = len(self._sizes) - 1
        for number, box in enumerate(self._sizes):
            above = _link(graph, above, _rung_filters(form, box, first=number == 0))
            sink = graph.add("buffersink")
            if number < last:
                split = graph.add("split")
                above.link_to(split)
                split.link_to(sink, 0)
                # The second output is the next rendition's source.
                between = graph.add("null")
                split.link_to(between, 1)
                above = between
            else:
                above.link_to(sink)
            sinks.append(sink)
        graph.configure()
        self._graph, self._source, self._sinks = graph, source, sinks
        return source


class _Deinterlacer:
    """Makes one progressive picture out of each interlaced frame, without delay.

    The filter needs the following frame before it returns one, which the cuts cannot wait for; so
    each frame is passed twice, as its own follower. The interpolated lines still use the frame
    before and the frame itself.
    """

    def __init__(self, form: FrameFormat) -> None:
        graph = Graph()
        graph.threads = 1
        self._graph = graph  # kept: the filters live as long as it does
        self._source = add_buffer(graph, form)
        sink = graph.add("buffersink")
        deinterlacer = graph.add("bwdif", mode="send_frame", parity="auto", deint="all")
        graph.link_nodes(self._source, deinterlacer, sink)
        graph.configure()
        self._sink = sink
        self._pulls = 1  # the first frame has none before it that would be returned with it

    def deinterlace(self, frame: VideoFrame) -> VideoFrame:
        """Return the progressive picture, with the frame's time.

        Raises:
            av.error.FFmpegError: the filter rejects the frame's format.
        """
        self._source.push(frame)
        self._source.push(frame)
        progressive = frame
        for _ in range(self._pulls):
            if isinstance(pulled := self._sink.pull(), VideoFrame):
                progressive = pulled
        self._pulls = 2
        progressive.pts, progressive.time_base = frame.pts, TIME_BASE
        return progressive


def add_buffer(graph: Graph, form: FrameFormat) -> FilterContext:
    """Add the source filter for frames of a format to a graph."""
    return graph.add(
        "buffer",
        video_size=f"{form.width}x{form.height}",
        pix_fmt=form.pixel_format,
        time_base=str(TIME_BASE),
        pixel_aspect=f"{form.aspect.numerator}/{form.aspect.denominator}",
        colorspace=str(form.matrix),
        range=str(form.range),
    )


def _rung_filters(form: FrameFormat, box: Size, *, first: bool) -> list[Filter]:
    """Return the filters that make one rendition's picture of the one above, or of the source."""
    size = fit(*form.upright, box) if first else box
    if first:
        chain = [*form.rotation_filters, *form.scaling_filters(size, SCALER)]
    else:
        scale = {"w": str(size[0]), "h": str(size[1]), **SCALER}
        chain = [("scale", scale), ("format", {"pix_fmts": "yuv420p"})]
    if size != box:
        left, top = (box[0] - size[0]) // 4 * 2, (box[1] - size[1]) // 4 * 2
        chain.append(("pad", {"w": str(box[0]), "h": str(box[1]), "x": str(left), "y": str(top)}))
    return [*chain, ("setsar", {"sar": "1/1"})]


def _link(graph: Graph, above: FilterContext, filters: list[Filter]) -> FilterContext:
    """Add the filters after `above`, in order; return the last."""
    chain = [graph.add(name, **options) for name, options in filters]
    graph.link_nodes(above, *chain)
    return chain[-1]
