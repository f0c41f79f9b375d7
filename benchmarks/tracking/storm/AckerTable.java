import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.lang.management.ManagementFactory;
import java.util.Random;
import org.apache.storm.utils.RotatingMap;

/** The table of Storm's acker alone, as Acker.execute uses it: what a root takes, and acks a second at random. */
public class AckerTable {
    private static final int BUCKETS = 3; // Acker.TIMEOUT_BUCKET_NUM
    private static final MethodHandle NEW;
    private static final MethodHandle UPDATE;

    static {
        try {
            Class<?> kind = Class.forName("org.apache.storm.daemon.Acker$AckObject");
            MethodHandles.Lookup inside = MethodHandles.privateLookupIn(kind, MethodHandles.lookup());
            NEW = inside.findConstructor(kind, MethodType.methodType(void.class))
                    .asType(MethodType.methodType(Object.class));
            UPDATE = inside.findVirtual(kind, "updateAck", MethodType.methodType(void.class, Long.class))
                    .asType(MethodType.methodType(void.class, Object.class, Long.class));
        } catch (ReflectiveOperationException trouble) {
            throw new ExceptionInInitializerError(trouble);
        }
    }

    private static void ack(RotatingMap<Object, Object> pending, Long id, Long value) throws Throwable {
        Object found = pending.get(id);
        if (found == null) {
            found = (Object) NEW.invokeExact();
            pending.put(id, found);
        }
        UPDATE.invokeExact(found, value);
    }

    private static long used() throws InterruptedException {
        for (int i = 0; i < 3; i++) {
            System.gc();
            Thread.sleep(50);
        }
        return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
    }

    public static void main(String[] arguments) throws Throwable {
        int count = Integer.parseInt(arguments[0]);
        int turns = Integer.parseInt(arguments[1]);
        Random random = new Random(1);
        int[] order = new int[count];
        long[] ids = new long[count];
        for (int i = 0; i < count; i++) {
            order[i] = i;
            ids[i] = random.nextLong(); // Storm's ids are at random
            int other = random.nextInt(i + 1);
            order[i] = order[other];
            order[other] = i;
        }
        long before = used();
        RotatingMap<Object, Object> pending = new RotatingMap<>(BUCKETS);
        for (int i = 0; i < count; i++) {
            ack(pending, ids[i], random.nextLong());
        }
        long bytes = used() - before;
        StringBuilder seconds = new StringBuilder();
        for (int turn = 0; turn <= turns; turn++) {
            long begun = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime();
            for (int i = 0; i < count; i++) {
                ack(pending, ids[order[i]], (long) i + 1);
            }
            long took = ManagementFactory.getThreadMXBean().getCurrentThreadCpuTime() - begun;
            if (turn > 0) { // the first is compiled
                seconds.append(seconds.length() == 0 ? "" : ", ").append(took / 1e9);
            }
        }
        System.out.println("{\"bytes\": " + bytes + ", \"held\": " + pending.size() + ", \"seconds\": [" + seconds + "]}");
    }
}
