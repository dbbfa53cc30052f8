  // The timeline. Lanes are typed arrays; at each pixel one interval is looked up, so that the cost
  // of a frame depends on the width of the screen and not on the number of intervals.
  function timeline(canvas, step) {
    if (!canvas || !step) return null;
    const total = step.total_ns, LABEL = 140, ROW = 26, AXIS = 22, LEAST = 50;
    const lanes = step.lanes.map((lane) => {
      const count = lane.gap.length, start = new Float64Array(count), end = new Float64Array(count), last = new Float64Array(count);
      for (let i = 0, at = 0, most = -Infinity; i < count; i++) {
        start[i] = at + lane.gap[i]; end[i] = at = start[i] + lane.dur[i];
        last[i] = most = Math.max(most, at);
      }
      return { lane, start, end, last, count };
    });
    let from = 0, to = total, drag = null, frame = 0, mark = null;
    // First interval that may end after a time: the running maximum of ends never falls.
    function firstAfter(row, time) {
      let low = 0, high = row.count;
      while (low < high) { const mid = (low + high) >> 1; if (row.last[mid] <= time) low = mid + 1; else high = mid; }
      return low;
    }
    function ns(value) {
      const size = Math.abs(value);
      return size >= 1e9 ? (value / 1e9).toFixed(3) + " s" : size >= 1e6 ? (value / 1e6).toFixed(3) + " ms" : size >= 1e3 ? (value / 1e3).toFixed(2) + " µs" : Math.round(value) + " ns";
    }
    function paint() {
      frame = 0;
      const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth, height = AXIS + ROW * lanes.length + 4;
      if (!width) return;
      canvas.style.height = height + "px"; canvas.width = width * ratio; canvas.height = height * ratio;
      const pen = canvas.getContext("2d"), style = getComputedStyle(document.body), label = width < 600 ? 0 : LABEL;
      const scale = (width - label) / (to - from);
      pen.scale(ratio, ratio); pen.font = "12px " + style.fontFamily; pen.textBaseline = "middle";
      const rule = getComputedStyle(document.documentElement).getPropertyValue("--rule");
      const soft = getComputedStyle(document.documentElement).getPropertyValue("--soft");
      const step_ns = 10 ** Math.floor(Math.log10((to - from) / 3)), tick = (to - from) / step_ns > 8 ? step_ns * 5 : (to - from) / step_ns > 4 ? step_ns * 2 : step_ns;
      pen.fillStyle = soft; pen.strokeStyle = rule; pen.beginPath();
      for (let at = Math.ceil(from / tick) * tick; at <= to; at += tick) {
        const x = label + (at - from) * scale;
        pen.moveTo(x, AXIS - 4); pen.lineTo(x, height); pen.fillText(ns(at), Math.min(x + 3, width - pen.measureText(ns(at)).width - 1), 9);
      }
      pen.stroke();
      lanes.forEach((row, index) => {
        const y = AXIS + index * ROW + 3, tall = ROW - 6;
        pen.fillStyle = style.color;
        if (label) pen.fillText(row.lane.title, 0, y + tall / 2);
        let x = label, i = firstAfter(row, from);
        while (i < row.count && row.start[i] < to) {
          const left = Math.max(label, label + (row.start[i] - from) * scale), right = Math.min(width, label + (row.end[i] - from) * scale);
          if (right > x - 1) {
            pen.fillStyle = step.colors[row.lane.color[i]];
            pen.fillRect(left, y, Math.max(right - left, 1), tall);
            x = Math.max(x, right, left + 1);
          }
          // Everything that ends within this pixel has no pixel of its own.
          const next = right - left < 1 ? firstAfter(row, from + (Math.floor(Math.max(x, left)) + 1 - label) / scale) : i + 1;
          i = Math.max(i + 1, next);
        }
        if (!label) { pen.fillStyle = style.color; pen.globalAlpha = .75; pen.fillText(row.lane.title, 3, y + tall / 2); pen.globalAlpha = 1; }
      });
      if (mark) {
        pen.strokeStyle = style.color; pen.lineWidth = 1.5;
        pen.strokeRect(label + (mark[0] - from) * scale, AXIS, Math.max(2, (mark[1] - mark[0]) * scale), ROW);
      }
    }
    function draw() { if (!frame) frame = requestAnimationFrame(paint); }
    function look(start, end) {
      const span = Math.max(LEAST, Math.min(total, end - start));
      from = Math.max(0, Math.min(total - span, start)); to = from + span; draw();
    }
    function place(event) {
      const box = canvas.getBoundingClientRect(), label = box.width < 600 ? 0 : LABEL;
      return { time: from + (event.clientX - box.left - label) * (to - from) / (box.width - label), row: lanes[Math.floor((event.clientY - box.top - AXIS) / ROW)], ratio: (to - from) / (box.width - label) };
    }
    const zoom = (factor, at) => look(at - (at - from) * factor, at + (to - at) * factor);
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) { const by = (event.deltaX || event.deltaY) * place(event).ratio; look(from + by, to + by); }
      else zoom(Math.exp(event.deltaY / 300), place(event).time);
    }, { passive: false });
    canvas.addEventListener("pointerdown", (event) => { drag = { x: event.clientX, from, to }; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointerup", () => { drag = null; });
    canvas.addEventListener("pointermove", (event) => {
      const at = place(event);
      if (drag) { const by = (drag.x - event.clientX) * at.ratio; look(drag.from + by, drag.to + by); return; }
      byId("timeline-at").textContent = at.row ? words(at.row, at.time, at.ratio) : "\u00a0";
    });
    canvas.addEventListener("dblclick", (event) => zoom(0.25, place(event).time));
    canvas.addEventListener("keydown", (event) => {
      const by = (to - from) / 5, keys = { ArrowLeft: [-by, -by], ArrowRight: [by, by], "+": [by, -by], "=": [by, -by], "-": [-by, by], "0": [-total, total] }[event.key];
      if (!keys) return;
      event.preventDefault();
      look(from + keys[0], to + keys[1]);
    });
    function words(row, time, near) {
      for (let i = firstAfter(row, time - near); i < row.count && row.start[i] <= time + near; i++) {
        if (row.end[i] < time - near) continue;
        const parts = [step.names[row.lane.name[i]], ns(row.end[i] - row.start[i])];
        if (step.offset_ns !== null) {
          const micros = BigInt(Math.round(row.start[i])) + BigInt(step.offset_ns);
          parts.push((Number(micros / 1000n) / 1e6).toFixed(6) + " s in " + step.viewer);
        }
        if ((row.lane.stream[i] ?? null) !== null) parts.push("stream " + row.lane.stream[i]);
        if ((row.lane.correlation[i] ?? null) !== null) parts.push("correlation " + row.lane.correlation[i]);
        return row.lane.title + ": " + parts.join(" · ");
      }
      return row.lane.title + ": nothing";
    }
    for (const go of document.querySelectorAll(".worst [data-start]")) {
      go.addEventListener("click", () => {
        const start = Number(go.dataset.start), dur = Number(go.dataset.dur);
        mark = [start, start + dur];
        look(start - dur, start + 2 * dur);
        byId("timeline-at").textContent = words(lanes[0], start + dur / 2, 0);
      });
    }
    byId("timeline-whole").addEventListener("click", () => { mark = null; look(0, total); });
    new ResizeObserver(draw).observe(canvas);
    paint();
    return { draw, paint, look, lanes };
  }
